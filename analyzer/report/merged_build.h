// From many traces to one report. Reads one trace after the other, a parent's before and around its children's, and keeps
// a row of each: time grows with the sum of their events, memory with their number, the largest live set and the different call
// stacks.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/report/merged.h"
#include "analyzer/report/site_scope_build.h"
#include "analyzer/report/sites_build.h"

namespace heapspy::report {

struct MergeOptions {
  bool at_end = false;  // verdicts are about the end, not the peak and the end
  SiteOptions sites;
  SiteScope scope;                       // times count from the start of the first process
  std::size_t processes_judged = 5;      // those of largest RSS (live bytes where that is not known) keep their findings
  std::function<void(double)> progress;  // share of the traces, 0 to 1
};

// `path` is what the report calls them. Throws trace::Unreadable where none of them can be read, NoSuchThread where none has
// such a thread.
MergedReport build_merged(const std::vector<std::string>& traces, const std::string& path, const MergeOptions& = {});

}  // namespace heapspy::report
