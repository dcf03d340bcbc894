#include "tests/process/counted_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace heapspy::test {

CountedCalls::CountedCalls(const Recording& run) {
  int file = -1;
  struct stat status {};
  while ((file = open(run.file("calls").c_str(), O_RDONLY)) < 0) sched_yield();
  while (fstat(file, &status) == 0 && status.st_size < 4096) sched_yield();
  mapped_ = static_cast<const volatile std::uint64_t*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0));
  close(file);
}

CountedCalls::~CountedCalls() { munmap(const_cast<std::uint64_t*>(mapped_), 4096); }

void CountedCalls::wait_for(std::uint64_t more) const {
  const std::uint64_t target = all() + more;
  while (all() < target) sched_yield();
}

// Which is which shows in no name: the larger belongs to the larger.
void CountedCalls::expect_in(const report::Report& report) const {
  expect_whole(report);
  std::vector<std::uint64_t> events, calls = {mapped_[0], mapped_[8]};
  for (const report::ThreadReport& thread : report.threads)
    if (thread.name == "t-works") events.push_back(thread.allocations + thread.frees);
  events.resize(2);  // one may not have begun
  std::sort(events.begin(), events.end());
  std::sort(calls.begin(), calls.end());
  for (std::size_t i = 0; i < 2; i++) {
    EXPECT_GE(events[i], calls[i]);
    EXPECT_LE(events[i], calls[i] + 1);
  }
}

}  // namespace heapspy::test
