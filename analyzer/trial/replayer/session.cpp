#include "session.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

namespace heapspy::trial {

namespace {
constexpr uint64_t kNobodyHas = 1ull << 47;  // of address space: refused by every allocator
}

void Session::begin(double pace) {
  next_trim_us_ = !trim_us ? ~0ull : first_trim_us ? first_trim_us : trim_us;
  heap.begin(calls.duration_us());
  played_time::begin(pace);
}

void Session::do_what_is_due(uint64_t time_us) {
  while (next_trim_us_ <= time_us) {
    add_points(next_trim_us_);
    played_time::set(next_trim_us_);
    heap.measure();
    malloc_trim(0);
    if (trim_us >= heap.point_step_us()) heap.add_point(next_trim_us_);
    next_trim_us_ += trim_us;
  }
  add_points(time_us);
  next_due_us_ = next_trim_us_ < heap.next_point_us() ? next_trim_us_ : heap.next_point_us();
}

// Since the last call the heap has been what it is.
void Session::add_points(uint64_t until_us) {
  if (until_us > heap.next_point_us()) heap.add_point(heap.next_point_us());
  if (until_us >= heap.next_point_us()) heap.add_point(until_us);
}

void Session::pause(const char* where) {
  dprintf(STDOUT_FILENO, "paused %s\n", where);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
}

uint64_t Session::growth(const Operation& operation) {
  if (operation.play == Play::free || operation.play >= Play::thread_end || operation.size >= kNobodyHas) return 0;
  const uint64_t touched = operation.touch_pages >= kTouchEach ? operation.size : operation.touch_pages * 4096ull;
  return operation.size < touched ? operation.size : touched;
}

uint64_t Session::play_run(uint64_t at) {
  const uint32_t thread = calls[at].thread;
  for (; at != pause_at; at++) {
    const Operation& operation = calls[at];
    if (operation.thread != thread || operation.play == Play::end) return at;
    pass_time(operation.time_us);
    heap.operation = at;
    if (operation.play == Play::free) {
      calls.make(operation);
      heap.grew(0);
      continue;
    }
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
  return at;
}

void play_bare(Session& of) {
  for (uint64_t at = 0; of.calls[at].play != Play::end; at++) of.calls.make(of.calls[at]);
}

}  // namespace heapspy::trial
