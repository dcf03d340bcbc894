#include "session.h"

#include <malloc.h>

#include "played_time.h"

namespace heapspy::trial {

namespace {
constexpr uint64_t kNobodyHas = 1ull << 47;  // of address space: refused by every allocator
}

void Session::begin(double pace) {
  next_trim_us_ = trim_us ? trim_us : ~0ull;
  heap.begin(calls.duration_us());
  played_time::begin(pace);
}

void Session::pass_time(uint64_t time_us) {
  while (next_trim_us_ <= time_us) {
    played_time::set(next_trim_us_);
    heap.measure();
    malloc_trim(0);
    next_trim_us_ += trim_us;
  }
  played_time::set(time_us);
  heap.passes(time_us);
}

uint64_t Session::growth(const Operation& operation) {
  if (operation.play == Play::free || operation.size >= kNobodyHas) return 0;
  const uint64_t touched = operation.touch_pages >= kTouchEach ? operation.size : operation.touch_pages * 4096ull;
  return operation.size < touched ? operation.size : touched;
}

uint64_t Session::play_run(uint64_t at) {
  const uint32_t thread = calls[at].thread;
  for (;; at++) {
    const Operation& operation = calls[at];
    if (operation.thread != thread || operation.play == Play::end) return at;
    pass_time(operation.time_us);
    heap.operation = at;
    if (operation.play == Play::thread_end) return at + 1;
    if (operation.play == Play::measure) {
      heap.add_point(operation.time_us);
      continue;
    }
    const uint64_t bytes = growth(operation);
    heap.expect(bytes);
    calls.make(operation);
    heap.grew(bytes);
  }
}

}  // namespace heapspy::trial
