// The whole trace in a dozen numbers.
#pragma once
#include <cstdint>

#include "analyzer/model/thread_table.h"
#include "analyzer/trace/event.h"

namespace heapspy::model {

// Calls by entry point, so that they can be compared with a counter beneath the recorder. free(NULL) is not counted.
// A call that failed counts in its entry point. realloc: every realloc and reallocarray call, whatever came of it.
struct Calls {
  std::uint64_t malloc = 0, calloc = 0, realloc = 0, aligned = 0, operator_new = 0, operator_new_aligned = 0;
  std::uint64_t free = 0, operator_delete = 0;
};

// `report --json`: totals. Counting rules as there; bytes are bytes asked for.
struct Totals {
  std::uint64_t allocations = 0;                  // calls that returned a new block
  std::uint64_t frees = 0;                        // blocks given back, those of unknown and inherited blocks included
  std::uint64_t reallocations = 0;                // of an existing block, to more than 0 bytes
  std::uint64_t failed = 0;                       // calls that returned NULL for want of memory
  std::uint64_t bytes_allocated = 0;              // by allocations and reallocations
  std::uint64_t live_bytes = 0, live_blocks = 0;  // at the end
  std::uint64_t peak_live_bytes = 0;
  trace::Tick peak_tick = 0;          // when it was reached first
  std::uint64_t temporary = 0;        // blocks freed by the very next event of their thread
  std::uint64_t unknown_frees = 0;    // of addresses where no block was known; not counting:
  std::uint64_t inherited_frees = 0;  // of blocks that the parent allocated before fork
  std::uint64_t unrecorded_frees =
      0;  // of blocks that were allocated while nothing was recorded (Observer::unrecorded_release)
  Calls calls;
};

// Memory: 8 bytes a thread.
class TotalsCounter final : public trace::Observer {
 public:
  const Totals& totals() const { return totals_; }

  void allocated(const trace::Block&, trace::Tick) override;
  void released(const trace::Block&, trace::ThreadId by, trace::Release, trace::Tick) override;
  void released_by_realloc(const trace::Block&, trace::ThreadId by, trace::Tick) override;
  void resized(const trace::Block& before, const trace::Block& after, trace::ThreadId by, trace::Tick) override;
  void vanished(const trace::Block&, trace::Tick) override;
  void release_unseen(const trace::Block&, trace::ThreadId said) override;
  void failed(trace::ThreadId, trace::Origin, std::uint64_t size, trace::Tick) override;
  void unknown_release(trace::ThreadId, std::uint64_t address, trace::Release, bool inherited, trace::Tick) override;
  void unrecorded_release(trace::ThreadId, std::uint64_t address, trace::Release, trace::Tick) override;

 private:
  void unknown_block(trace::ThreadId, trace::Release);
  void end_block(const trace::Block&, trace::ThreadId by);
  void grown(trace::Tick);

  Totals totals_;
  ThreadTable<std::uint64_t> newest_;  // address of the block that the thread's last event allocated, else 0
};

}  // namespace heapspy::model
