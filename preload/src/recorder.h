// The recorder of this process: one trace, the threads that write it, and what must be done now and then.
#pragma once
#include <atomic>
#include <cstdint>

#include "lock.h"
#include "options.h"
#include "thread_registry.h"
#include "tick.h"
#include "trace_file.h"

namespace heapspy {

// All that belongs to one trace. Lives in memory that fork wipes: in a forked child everything is zero, locks are open,
// and `alive` says that the child has to begin its own.
struct Recorder {
  uint64_t alive;
  TraceFile file;
  TickClock clock;
  ThreadRegistry threads;
  Lock snapshot_lock;
  std::atomic<uint64_t> next_upkeep_tick;   // when RSS is looked at again
  std::atomic<uint64_t> highest_rss_bytes;  // of the last snapshot at a peak
  std::atomic<uint64_t> last_snapshot_end;  // ticks
  std::atomic<uint64_t> last_snapshot_took;
  std::atomic<uint64_t> next_interval_ns;  // snapshot_every_ns: when the next one is due, CLOCK_MONOTONIC
  std::atomic<bool> helper_asked_for;
  std::atomic<bool> helper_runs;
  std::atomic<uint32_t> helper_snapshots;  // bit i: a snapshot for reason i is wanted from the helper
};

// Valid from the first event on; null before, and in a process that is not recorded.
extern Recorder* recorder;
// Outlives fork: what the environment said before the program could change it.
extern Options options;

// The ticks of 10 milliseconds, at least; how often upkeep looks at RSS.
inline constexpr uint64_t kUpkeepNs = 10000000;

// Begins the trace of this process (the first event of it, or of a forked child). Leaves `recorder` null and the process
// unrecorded where that fails.
void begin_trace(bool forked);
// From the exit paths of the process. Idempotent.
void end_trace(format::End how);
// The calling thread has a new name.
void note_thread_name();
// Reads both clocks into the trace's header.
void note_clocks();

}  // namespace heapspy
