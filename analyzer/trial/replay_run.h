// One replay in a process of its own.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/process/child_process.h"

namespace heapspy::trial {

struct CurvePoint {
  double time_s = 0;
  std::uint64_t heap_bytes = 0;
};

// What the allocator asked of the kernel about its memory.
struct MemoryCalls {
  std::uint64_t brk = 0, mmap = 0, munmap = 0, mremap = 0, mprotect = 0, madvise = 0;
  std::uint64_t all() const { return brk + mmap + munmap + mremap + mprotect + madvise; }
};

// One replay. Heap bytes: private anonymous memory in RAM beyond what the process had before the first call; and beyond what it
// had there under the C library's allocator, once replay() has added what another allocator takes for itself at its start.
struct Replayed {
  std::uint64_t operations = 0, peak_heap_bytes = 0, end_heap_bytes = 0;
  std::uint64_t baseline_bytes = 0;  // anonymous memory before the first call
  std::uint64_t peak_operation = 0;  // that was played when the peak was measured
  std::uint64_t failed = 0;          // allocations that the allocator refused
  std::uint64_t minor_faults = 0;
  double wall_s = 0, cpu_s = 0;         // measuring left out
  std::optional<std::uint64_t> arenas;  // glibc, at the end
  // Only where threads play at once: how often one slept for a lock of the allocator (or the kernel's, of the address space):
  // its voluntary switches less those that the replay's own order made. Seconds: of the allocator's locks, by lock_waits.h.
  std::optional<std::uint64_t> lock_waits;
  std::optional<double> lock_wait_s;
  std::optional<MemoryCalls> memory_calls;  // if they were to be counted; nullopt also where the kernel refuses
  std::vector<CurvePoint> curve;
};

struct ReplayRun {
  std::string replayer, operations;  // paths
  process::EnvironmentChanges environment;
  std::uint64_t trim_us = 0;               // recorded time between two trims; 0: none
  std::uint64_t first_trim_us = 0;         // 0: after as much
  double pace = 1;                         // how much longer the program takes, as far as allocators are told
  bool in_windows = false;                 // threads play at once
  std::uint64_t usual_baseline_bytes = 0;  // under the C library's allocator; 0: nothing is added
  bool count_memory_calls = false;         // and forget the times: counting takes its own
  // Called while the replay waits: before the operation of that number, and at its end.
  std::uint64_t look_before = 0;
  std::function<void(pid_t, bool at_end)> look{};
};

// ReplayRun::operations of a replay that only says its baseline.
inline constexpr char kNoOperations[] = "none";

struct ReplayOutcome {
  Replayed result;
  std::string problem;  // why it did not come to its end, one line; "" none
};

// Throws process::StartError.
ReplayOutcome run_replay(const ReplayRun&);

}  // namespace heapspy::trial
