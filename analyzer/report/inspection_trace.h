// Joins the heap of a recorded process with its trace: which call stack each chunk in use came from.
#pragma once
#include <cstdint>
#include <string>

#include "analyzer/report/inspection.h"

namespace heapspy::report {

// Both clocks of a trace, read at one moment.
struct RawMoment {
  std::uint64_t tsc = 0;  // 0: this machine has none
  std::uint64_t monotonic_ns = 0;
  static RawMoment now();
};

// `moment`: when the process stood still; what the trace tells of later is left out. Leaves a note where it cannot be read.
void join_trace(Inspection&, const std::string& path, const RawMoment& moment);

}  // namespace heapspy::report
