// Mode count: where each thread's counters stand, in mapped pages of the trace. A thread that has ended keeps its own for as
// long as it is among the last 1024; older ones are summed up in one, so the space follows the threads that live.
//
// Threads: under the registry's lock. Lives in the recorder's wipe-on-fork memory, zero at first.
#pragma once
#include "heapspy/format/layout.h"

namespace heapspy {

class CounterTable {
 public:
  static uint64_t first_segment_bytes();
  void begin(char* segment);
  // Counters of a new thread. nullptr: no room for more.
  format::ThreadCounters* take(uint32_t thread, uint32_t tid, uint64_t tick);
  // The thread is gone.
  void ended(format::ThreadCounters* counters);

 private:
  static constexpr uint32_t kMost = 16384, kMostEnded = 1024;

  void add_segment(char* segment, uint32_t slots);
  format::ThreadCounters* sum_up_oldest();

  uint32_t slots_ = 0;
  uint32_t free_ = 0;                       // of all_, from its end
  uint64_t ended_from_ = 0, ended_to_ = 0;  // of ended_, which is a ring
  format::ThreadCounters* sum_ = nullptr;   // of the threads that ended long ago
  format::ThreadCounters* ended_[kMostEnded] = {};
  format::ThreadCounters* unused_[kMost] = {};
};

}  // namespace heapspy
