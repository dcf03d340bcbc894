// Where each thread's counters stand (modes count and full), in mapped pages of the trace. A thread that has ended keeps its
// own for as long as it is among the last 1024; older ones are summed up in one, so the space follows the threads that live.
//
// Threads: under the registry's lock. Lives in the recorder's wipe-on-fork memory, zero at first.
#pragma once
#include "heapspy/format/layout.h"

namespace heapspy {

class CounterTable {
 public:
  // Those of the first threads: in a page that the trace has anyway, so that a short process pays nothing for the rest.
  static constexpr uint32_t kFirst = 4;
  // Mode count: a segment of its own for them.
  static uint64_t first_segment_bytes();
  static format::ThreadCounters* first_in_segment(char* segment);
  void begin(format::ThreadCounters* first) { first_ = first; }

  // Counters of a new thread. nullptr: no room for more.
  format::ThreadCounters* take(uint32_t thread, uint32_t tid, uint64_t tick);
  // The thread is gone.
  void ended(format::ThreadCounters* counters);
  // Bytes of memory of its own besides this object.
  uint64_t private_bytes() const;

 private:
  static constexpr uint32_t kMost = 16384, kMostEnded = 1024;
  struct Book {
    uint32_t slots, free;           // `free` of unused, from its end
    uint64_t ended_from, ended_to;  // of ended, which is a ring
    format::ThreadCounters* sum;    // of the threads that ended long ago
    format::ThreadCounters* ended[kMostEnded];
    format::ThreadCounters* unused[kMost];
  };

  format::ThreadCounters* unused_slot();
  bool open_book();
  void add_segment();
  void sum_up_oldest();

  format::ThreadCounters* first_ = nullptr;
  uint32_t first_taken_ = 0;
  Book* book_ = nullptr;  // from the first thread on that ends or finds none of the first left
};

}  // namespace heapspy
