// One replay: the calls, the time, what is measured, and the trims that a setting asks for.
#pragma once
#include <stdint.h>

#include "calls.h"
#include "heap_measure.h"

namespace heapspy::trial {

struct Session {
  Calls calls;
  HeapMeasure heap;
  uint64_t trim_us = 0;  // between two trims; 0: none
  // Threads that play at once: their sleeps, less those for the replay's own order. Known after the end.
  bool at_once = false;
  uint64_t lock_waits = 0;

  void begin(double pace);
  // What is due before the recorded time comes to `time_us`: trims, also where nothing else happens, and points of the curve.
  void pass_time(uint64_t time_us);
  // Plays on from operation `at` as long as one thread calls. Returns the place after that: of another thread's operation, or
  // behind a thread_end, or of the end.
  uint64_t play_run(uint64_t at);
  // The bytes that an operation may add to the heap's resident memory.
  static uint64_t growth(const Operation&);

 private:
  uint64_t next_trim_us_ = ~0ull;
};

// Each call when it was made, one at a time; on the thread that made it.
void play_in_total_order(Session&);
// Threads play at once, within windows of operations: a thread may be ahead of the others by one window, and calls on one block
// keep their order.
void play_in_windows(Session&);

}  // namespace heapspy::trial
