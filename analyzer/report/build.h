// From a trace to a report: runs the model over the trace, the ledger and the verdicts over what it found.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "analyzer/model/heap_model.h"
#include "analyzer/report/report.h"
#include "analyzer/report/site_scope_build.h"
#include "analyzer/report/sites_build.h"
#include "analyzer/trace/reader.h"

namespace heapspy::report {

struct BuildOptions {
  // Where `arenas` and `rss` are taken: the snapshot of highest RSS, the end, or `at_seconds` where that is given.
  enum class At { peak, end } at = At::peak;
  std::optional<double> at_seconds;
  // The verdicts are about that moment alone. Else they are about the peak and the end, each kind about the moment where
  // it is larger.
  bool verdicts_at_moment = false;
  std::function<void(double)> progress;  // share done, 0 to 1

  SiteOptions sites;
  SiteScope scope;
};

// Throws trace::Unreadable, NoSuchThread.
Report build_report(const std::string& path, const BuildOptions& = {});
// The same from what was read already (figures must be of this reader).
Report build_report(const trace::Reader&, const model::Figures&, const BuildOptions& = {});

}  // namespace heapspy::report
