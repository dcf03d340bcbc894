// Where the RSS of an inspected process is.
#pragma once
#include <vector>

#include "analyzer/process/mapping_kinds.h"
#include "analyzer/report/inspection.h"

namespace heapspy::report {

// Blocks in use with headers and rounding: a heap does not say what was asked for.
inline constexpr const char* kInUsePart = "malloc: in use";

// `mappings`: of smaps. Fills Inspection::rss and kinds.
void add_rss(Inspection&, const std::vector<process::Mapping>& mappings, process::Evidence evidence);
// Of mappings alone: kinds.
void add_kinds(Inspection&, const std::vector<process::Mapping>& mappings);

}  // namespace heapspy::report
