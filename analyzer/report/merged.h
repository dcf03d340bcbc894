// One report over the traces of several processes: a prefork family, a build of thousands of compilers. Filled by
// merged_build.h; merged_json and merged_text write it. Words and units as in report.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/report/report.h"

namespace heapspy::report {

// Blocks that a forked process had from its parent, as the parent's trace knows them.
struct InheritedReport {
  std::uint64_t blocks_at_fork = 0, bytes_at_fork = 0;
  std::uint64_t frees = 0, bytes_freed = 0, reallocations = 0;
  std::uint64_t unmatched_frees = 0;  // no block was known at the address, neither in the parent nor in the process itself
  std::uint64_t live_blocks = 0, live_bytes = 0;  // at the end; not in the process's own live figures
  struct Thread {
    std::uint32_t pid = 0;  // of the process that allocated them
    std::string name;
    std::uint64_t frees = 0, bytes = 0;
  };
  std::vector<Thread> threads;  // that allocated what was freed; most bytes first
};

// One process, in a few hundred bytes: there may be thousands.
struct ProcessRow {
  std::string trace, mode;
  std::uint32_t pid = 0, ppid = 0;
  std::string exe, name;  // name: its command line, cut
  std::uint64_t start_realtime_ns = 0;
  std::string start_time;
  Seconds duration_s;
  std::string end;
  bool forked = false;
  std::optional<std::uint32_t> parent_pid;  // of its parent's trace, where that is among these
  std::uint64_t size_bytes = 0, events = 0, lost_events = 0, damage = 0, threads = 0;
  bool complete = true;
  TotalsReport totals;
  Bytes peak_rss_bytes, end_rss_bytes;  // at snapshots; peak: the kernel's high-water mark where it is known
  Bytes private_dirty_bytes;            // of smaps, at the snapshot of the peak: what it shares with nobody
  std::optional<InheritedReport> inherited;
};

// Threads of one name, over all processes.
struct NamedThreads {
  std::string name;
  std::uint64_t processes = 0, threads = 0;
  std::uint64_t allocations = 0, frees = 0, reallocations = 0, failed = 0, bytes_allocated = 0;
  Bytes live_bytes;
  Count freed_by_others, freed_for_others;
  std::vector<SizeReport> sizes;
};

struct LeftOutTrace {
  std::string trace, reason;
};

struct ProcessFindings {
  std::size_t process = 0;  // index into processes
  std::vector<findings::Finding> findings;
};

struct MergedReport {
  std::string path;                      // the folder, or the traces
  std::vector<ProcessRow> processes;     // by start
  std::vector<LeftOutTrace> unreadable;  // given, and no traces
  std::vector<LeftOutTrace> copies;      // of a process that is in the list already
  std::vector<LeftOutTrace> damaged;     // in the sums as far as they can be read; the first damage of each, at most 1000
  TraceReport trace;                     // sums; strings: where all agree, else "several"
  Seconds duration_s;                    // from the first start to the last end
  TotalsReport totals;                   // sums; the peak of the sum is not known
  std::vector<NamedThreads> threads;     // most bytes first
  std::vector<SizeReport> sizes;
  std::vector<LifetimeReport> lifetimes;
  std::vector<ProcessFindings> findings;  // of the largest processes that have any
  // Call stacks over all processes (family_sites.h): sites, modules, suppressed_bytes, `at` and trace.stacks; nothing else of
  // it.
  Report stacks;
};

}  // namespace heapspy::report
