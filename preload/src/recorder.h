// The recorder of this process: one trace, the threads that write it, and what must be done now and then.
#pragma once
#include <atomic>
#include <cstdint>

#include "lock.h"
#include "modules.h"
#include "options.h"
#include "stack_table.h"
#include "thread_registry.h"
#include "tick.h"
#include "trace_file.h"
#include "unwind/hotspot_code.h"
#include "unwind/rule_table.h"

namespace heapspy {

// All that belongs to one trace. Lives in memory that fork wipes: in a forked child everything is zero, locks are open,
// and `alive` says that the child has to begin its own.
struct Recorder {
  uint64_t alive;
  TickClock clock;
  Lock snapshot_lock;
  Lock copy_lock;
  Lock pause_lock;
  bool at_rest;                             // go_to_rest
  bool paused;                              // by the program (heapspy_stop)
  std::atomic<uint64_t> next_upkeep_tick;   // when RSS is looked at again
  std::atomic<uint64_t> highest_rss_bytes;  // of the last snapshot at a peak
  std::atomic<uint64_t> last_snapshot_end;  // ticks
  std::atomic<uint64_t> last_snapshot_took;
  std::atomic<uint64_t> next_interval_ns;  // snapshot_every_ns: when the next one is due, CLOCK_MONOTONIC
  std::atomic<bool> has_collector;         // as upkeep saw it in the file's header
  std::atomic<bool> helper_asked_for;
  std::atomic<bool> helper_runs;
  std::atomic<uint32_t> helper_tid;
  std::atomic<uint32_t> helper_work;  // bits of control::snapshot_bit and freeze_bit: what is wanted from the helper
  ThreadRegistry threads;
  TraceFile file;  // its path fills a page: with what is before it, a start touches one
  StackTable stacks;
  Modules modules;
  unwind::RuleTable rules;
  unwind::HotspotCode hotspot;
  std::atomic<uint32_t> unwinders;  // made so far
};

// Valid from the first event on; null before, and in a process that is not recorded.
extern Recorder* recorder;
// Outlives fork: what the environment said before the program could change it.
extern Options options;

// Adds the ticks of its scope to what the trace says that recording took. Scopes do not nest.
class OwnTime {
 public:
  OwnTime() : begin_(recorder->clock.now()) {}
  ~OwnTime() {
    std::atomic_ref<uint64_t>(recorder->file.header().recorder_ticks)
        .fetch_add(recorder->clock.now() - begin_, std::memory_order_relaxed);
  }
  OwnTime(const OwnTime&) = delete;
  OwnTime& operator=(const OwnTime&) = delete;

 private:
  uint64_t begin_;
};

// The ticks of 10 milliseconds, at least; how often upkeep looks at RSS.
inline constexpr uint64_t kUpkeepNs = 10000000;

// Before the first call of the process is passed on: resolves the allocator beneath, reads the settings, begins the trace and
// sets the table of entry points. False: the caller is itself called by the beginning.
bool start_of_process();
// True where the calling thread may go on to register itself; begins a forked child's trace. Signals are blocked.
bool process_is_recorded();
// What is looked at every 10 milliseconds: RSS, requests, triggers. True where it was now. The thread is shut.
bool upkeep_if_due(uint64_t now_tick);
// Has `thread_ends` called when the calling thread ends. May allocate.
void note_end_of_thread(ThreadState* thread);
// For good: after it nothing of the recorder makes a system call (sandbox.cpp). False: nothing is recorded here, or no more.
bool go_to_rest();
// It was not for good.
void wake_up();
// From the exit paths of the process. Idempotent.
void end_trace(format::End how);
// Reads both clocks into the trace's header.
void note_clocks();

}  // namespace heapspy
