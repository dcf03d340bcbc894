// How many threads want an arena's lock at once: calls that no thread cache answered, in slices of a millisecond. What
// MALLOC_ARENA_MAX would make wait for each other. Constant time an event; memory: 8 bytes a thread.
#pragma once
#include <cstdint>

#include "analyzer/model/thread_table.h"
#include "analyzer/trace/event.h"

namespace heapspy::model {

struct ConcurrencyFigures {
  std::uint64_t calls = 0;  // that took an arena's lock, as far as the model of thread caches knows
  // Of those, in slices in which two or more threads made such calls by turns: not one after the other.
  std::uint64_t calls_together = 0;
  std::uint64_t slices_together = 0;
  double threads_at_once = 0;  // in those slices, on average over their calls
};

class Concurrency {
 public:
  // `slice`: a millisecond in ticks.
  explicit Concurrency(trace::Tick slice) : slice_(slice ? slice : 1) {}

  void call(trace::ThreadId thread, trace::Tick tick) {
    if (tick < begin_ || tick - begin_ >= slice_) {
      close();
      begin_ = tick - tick % slice_;
      number_++;
    }
    calls_++;
    turns_ += thread != newest_;
    newest_ = thread;
    std::uint64_t& last = last_[thread];
    threads_ += last != number_;
    last = number_;
  }
  ConcurrencyFigures figures() {
    close();
    number_++;
    ConcurrencyFigures result = figures_;
    if (result.calls_together) result.threads_at_once = weighted_ / static_cast<double>(result.calls_together);
    return result;
  }

 private:
  static constexpr std::uint64_t kTurns = 3;  // a thread; those that hand over to each other take one

  void close() {
    figures_.calls += calls_;
    if (threads_ > 1 && turns_ >= kTurns * threads_) {
      figures_.calls_together += calls_;
      figures_.slices_together++;
      weighted_ += static_cast<double>(calls_) * static_cast<double>(threads_);
    }
    calls_ = threads_ = turns_ = 0;
  }

  trace::Tick slice_, begin_ = 0;
  std::uint64_t number_ = 1;  // of the slice
  std::uint64_t calls_ = 0, threads_ = 0, turns_ = 0;
  trace::ThreadId newest_ = trace::ThreadId::none;
  ThreadTable<std::uint64_t> last_;  // slice of the thread's latest call
  ConcurrencyFigures figures_;
  double weighted_ = 0;
};

}  // namespace heapspy::model
