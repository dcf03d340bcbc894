// The sites of two reports side by side: what grew, what is new, what vanished.
#pragma once
#include <vector>

#include "analyzer/report/diff.h"

namespace heapspy::report {

// Both reports must hold all of their sites. Figures: live_bytes, peak_bytes, bytes, allocations, pinned_bytes, end_live_bytes.
std::vector<ComparedSites> compare_sites(const Report& before, const Report& after);

}  // namespace heapspy::report
