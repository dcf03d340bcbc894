// Whether the blocks of a call stack are left over from all parts of a run.
#pragma once
#include <cstdint>

#include "analyzer/findings/facts.h"

namespace heapspy::findings {

// What is left of the blocks that a site allocated after the first part of the run, if some of most parts is; else 0.
std::uint64_t leaked(const SiteFacts&);
// … where as much is left of each part.
std::uint64_t leaked_evenly(const SiteFacts&);

}  // namespace heapspy::findings
