// Holds the order that the timeline found against what really happened, as tests/victims/lib_truth.c noted it.
//
// A life of a block is named by the allocation that began it: the n-th of its thread, which both sides know exactly. Its end is
// named by a thread and by how often that thread had freed this address before. A free is wrongly attributed if the life that
// it really ended is said to have ended by another free, or by none.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>

#include "analyzer/trace/reader.h"
#include "analyzer/trace/timeline.h"

namespace heapspy::test {

struct MergeTruth {
  trace::TimelineCounts counts;
  std::uint64_t frees = 0;         // that ended a block both sides know; a realloc that moved is one
  std::uint64_t wrong = 0;         // of these: attributed to another block
  std::uint64_t wrong_thread = 0;  // of these: so that even the thread that freed the block is another one
  std::uint64_t unpaired = 0;      // allocations of the trace that the truth does not have
  std::uint64_t impossible = 0;    // in the truth itself: calls that do not fit the state of their address
  double median_error_us = 0;      // of the times of allocations
  double p99_error_us = 0;
  double worst_error_us = 0;

  double wrong_per_100000() const { return frees ? 1e5 * static_cast<double>(wrong) / static_cast<double>(frees) : 0; }
};

// `folder` is TRUTH_OUT of the recorded process. The histories of the first `show` wrong addresses go to `out` (may be
// nullptr).
MergeTruth compare_with_truth(const trace::Reader&, const std::string& folder, std::size_t show = 0,
                              std::ostream* out = nullptr);

}  // namespace heapspy::test
