// What tests/victims/counts_while_it_works says of itself: how many calls of its two threads have returned, in the file "calls"
// that it maps. It outlives the program, however that ends.
#pragma once
#include <cstdint>

#include "tests/process/recording.h"

namespace heapspy::test {

class CountedCalls {
 public:
  explicit CountedCalls(const Recording&);  // waits for the file
  ~CountedCalls();
  CountedCalls(const CountedCalls&) = delete;
  CountedCalls& operator=(const CountedCalls&) = delete;

  std::uint64_t all() const { return mapped_[0] + mapped_[8]; }
  void wait_for(std::uint64_t more) const;
  // Each thread's events are in the report, and at most the one more whose return was not counted yet.
  void expect_in(const report::Report&) const;

 private:
  const volatile std::uint64_t* mapped_;
};

}  // namespace heapspy::test
