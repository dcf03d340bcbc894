// One replay: the calls, the time, what is measured, and the trims that a setting asks for.
#pragma once
#include <stdint.h>

#include "calls.h"
#include "heap_measure.h"
#include "played_time.h"

namespace heapspy::trial {

struct Session {
  Calls calls;
  HeapMeasure heap;
  uint64_t trim_us = 0;        // between two trims; 0: none
  uint64_t first_trim_us = 0;  // 0: after as much
  // Threads that play at once: their sleeps, less those for the replay's own order. Known after the end.
  bool at_once = false;
  uint64_t lock_waits = 0;
  uint64_t pause_at = ~0ull;  // an operation before which someone looks at this process from outside

  void begin(double pace);
  // The recorded time comes to `time_us`. What is due before: trims, also where nothing else happens, and points of the curve.
  void pass_time(uint64_t time_us) {
    if (time_us >= next_due_us_) do_what_is_due(time_us);
    played_time::set(time_us);
  }
  // Plays on from operation `at` as long as one thread calls. Returns the place after that: of another thread's operation, or
  // behind a thread_end, of the end, or where to pause.
  uint64_t play_run(uint64_t at);
  // Says so on the standard output, and waits for a byte on the standard input.
  static void pause(const char* where);
  // The bytes that an operation may add to the heap's resident memory.
  static uint64_t growth(const Operation&);

 private:
  void do_what_is_due(uint64_t time_us);
  void add_points(uint64_t until_us);
  uint64_t next_trim_us_ = ~0ull, next_due_us_ = 0;
};

// Each call when it was made, one at a time; on the thread that made it.
void play_in_total_order(Session&);
// The calls of a program of one thread and nothing else: no time, nothing measured. To know what the rest costs.
void play_bare(Session&);
// Threads play at once, within windows of operations, and none is ahead of another by more than two. Calls on one block keep
// their order; else a call may come a window late.
void play_in_windows(Session&);

}  // namespace heapspy::trial
