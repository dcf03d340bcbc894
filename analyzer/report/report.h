// One report: everything that `heapspy report` shows, in the order and the words of the schema heapspy.report/1.
// report_json and report_text write it; diff compares two; they add nothing of their own. Filled by build.h.
//
// Bytes are bytes, times are seconds from the start of the process. nullopt is "not known" (JSON null, text "?").
// Strings that come from the traced process (names, paths, command) hold whatever bytes it used; writers escape them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/findings/finding.h"
#include "analyzer/report/shared_text.h"

namespace heapspy::report {

using Bytes = std::optional<std::uint64_t>;
using Count = std::optional<std::uint64_t>;
using Seconds = std::optional<double>;

struct DamageReport {
  std::uint64_t offset = 0;
  std::string reason;
};

// What a ring holds, or a copy of it.
struct RingReport {
  Seconds oldest_s;                      // the first event that is there
  Seconds from_s, to_s;                  // in this time every event is
  bool whole = false;                    // nothing was overwritten
  std::uint64_t limit_bytes = 0;         // HEAPSPY_RING
  std::optional<std::string> frozen_by;  // of a copy: "rss", "cgroup", "signal", "fail", "requested"
};

struct SampleReport {
  std::uint64_t mean_bytes = 0;   // between samples
  std::uint64_t lost_blocks = 0;  // that found the set of sampled blocks full: figures are too low by those
};

// The program stopped recording (heapspy_stop); to_s: nullopt where it did not begin again.
struct PauseReport {
  double from_s = 0;
  Seconds to_s;
};

// Of figures that are estimates (mode sample), in their own unit; one standard deviation.
struct StandardErrorReport {
  double allocations = 0, frees = 0, reallocations = 0, bytes_allocated = 0;
  double live_bytes = 0, live_blocks = 0, peak_live_bytes = 0;
};

struct TraceReport {
  std::string path;
  std::uint32_t format_version = 0;
  std::string mode;   // "full" …
  std::string clock;  // "stamp", "event"
  std::uint64_t size_bytes = 0;
  std::uint64_t events = 0;
  std::uint64_t lost_events = 0;
  std::uint64_t reordered_events = 0;
  bool complete = true;  // nothing lost, nothing damaged, not stopped
  std::vector<DamageReport> damage;
  std::uint64_t damage_left_out = 0;     // further damage beyond what the list holds
  std::optional<std::string> stop;       // why recording stopped before the process ended: "the disk is full" …
  std::optional<RingReport> ring{};      // mode ring
  std::optional<SampleReport> sample{};  // mode sample
  std::vector<PauseReport> pauses{};     // by time
  std::string stacks = "none";           // how call stacks were taken: "fp", "dwarf", "libunwind"
  std::uint64_t stacks_lost = 0;         // that were not kept
};

struct ProcessReport {
  std::uint32_t pid = 0, ppid = 0;
  std::string exe;
  std::vector<std::string> command;
  std::string host;
  std::string start_time;  // UTC, ISO 8601 to the nanosecond
  Seconds duration_s;
  std::string front;  // what answers malloc before the recorder; "": nothing
  std::string end;    // "exit", "killed", "running", "exec"
  std::string allocator_name;
  std::optional<std::string> allocator_version;
  std::vector<std::pair<std::string, std::string>> environment;  // what bears on memory: MALLOC_*, LD_PRELOAD …
  bool forked = false;
  Count cpus;                         // that it may run on
  std::optional<double> cpu_quota{};  // CPUs whose time its cgroups grant; nullopt: no limit, or not known
  Bytes peak_rss_bytes;               // VmHWM: the kernel's own high-water mark, at the last snapshot
  std::optional<std::string> glibc_version;
};

struct TotalsReport {
  std::uint64_t allocations = 0, frees = 0, reallocations = 0, failed = 0, bytes_allocated = 0;
  Bytes live_bytes;  // at the end
  Count live_blocks;
  Bytes peak_live_bytes;
  Seconds peak_time_s;
  Count temporary, unknown_frees, inherited_frees;
  // By entry point, name → calls, in the order of the list in record.h.
  std::vector<std::pair<std::string, std::uint64_t>> calls;
  Count before_ring_frees{};  // mode ring: of blocks whose allocation was overwritten
  Count paused_frees{};       // where there was a pause: of blocks that may have been allocated in it
  std::optional<StandardErrorReport> standard_error{};
};

struct SizeReport {
  std::uint64_t from = 0, to = 0;  // requested bytes, [from, to)
  std::uint64_t allocations = 0, bytes = 0;
  Count live_blocks;  // at the end; not kept per thread
  Bytes live_bytes;
};

struct ThreadReport {
  std::uint32_t id = 0, tid = 0;
  std::string name;
  Seconds start_s, end_s;  // end_s: nullopt while it runs, or when its end was not seen
  std::uint64_t allocations = 0, frees = 0, reallocations = 0, failed = 0, bytes_allocated = 0;
  Bytes live_bytes, peak_live_bytes;  // of blocks that it allocated, whoever frees them
  Count freed_by_others;              // blocks that it allocated and another thread freed
  Count freed_for_others;             // blocks of other threads that it freed
  Bytes pinned_bytes;                 // at the moment: charged to its live blocks
  std::optional<StandardErrorReport> standard_error;
  std::vector<SizeReport> sizes;
  std::optional<std::string> role{};   // of a JVM: "gc", "compiler", "vm", "java"
  std::optional<std::string> group{};  // of a thread of Java's: its thread group
  std::optional<bool> daemon{};        // of a thread of Java's
  // What it was called since when, by time; the newest of them.
  struct Name {
    double time_s = 0;
    std::string name;
  };
  std::vector<Name> names{};
  std::uint64_t names_left_out = 0;  // older ones
};

// A library of a JVM whose code called malloc, itself or through the C library: the innermost of each call stack.
struct CallerReport {
  bool known = true;    // else the call stack is not
  std::string library;  // path; "": code made at run time
  std::uint64_t allocations = 0, bytes = 0;
  Bytes live_bytes;  // at the moment
  Count live_blocks;
  std::uint64_t end_live_bytes = 0;
};

struct RoleReport {
  std::string role;  // as of threads
  std::uint64_t threads = 0, allocations = 0, bytes_allocated = 0;
  Bytes live_bytes;  // at the end
};

// Of a process that is a JVM.
struct JavaReport {
  std::vector<CallerReport> callers;  // most live first; empty where no call stacks were recorded
  std::vector<RoleReport> roles;
};

struct LifetimeReport {
  double from_s = 0;
  Seconds to_s;  // nullopt: no upper end
  std::uint64_t blocks = 0, bytes = 0;
};

struct PlugReport {
  std::uint64_t address = 0, size = 0;
  std::uint32_t thread = 0;
  Seconds age_s;
  Bytes free_below_bytes;  // resident free bytes under it in its heap
  std::uint32_t site = 0;  // 0: not known
  std::string where{};     // of the site, as in findings: "fill (src/shop.cpp:20)"
};

struct ArenaReport {
  std::uint32_t id = 0;
  std::string kind;  // "main", "secondary", "mmapped", "other"
  std::optional<std::uint64_t> address;
  Count heaps;
  std::vector<std::uint32_t> threads;  // ids of those that allocated in it
  Bytes system_bytes, in_use_bytes;
  Bytes live_bytes;
  Count live_blocks;
  Bytes resident_bytes, trimmable_bytes, pinned_bytes, cached_bytes;
  std::optional<double> fragmentation;
  std::optional<PlugReport> plug;
};

inline constexpr const char* kRecorderPart = "heapspy itself";  // as the ledger calls it

// A piece of a part: a library, the code cache …
struct DetailReport {
  std::string name;
  std::uint64_t bytes = 0;
};

struct PartReport {
  std::string name;
  std::uint64_t bytes = 0;
  std::vector<DetailReport> details{};  // sum to `bytes`; empty where there is nothing to tell apart
};

// Whole mappings by what they are for: swap and huge pages are known by mapping. Malloc's parts are one group.
struct GroupReport {
  std::string name;
  std::uint64_t mappings = 0, bytes = 0, swap_bytes = 0, huge_bytes = 0;
};

// What the memory cgroup counts; other processes in it included.
struct CgroupReport {
  Bytes current_bytes, limit_bytes, peak_bytes;  // limit: nullopt where there is none
  Bytes anonymous_bytes, file_bytes, kernel_bytes, shared_bytes, swap_bytes;
  // What it counts that is not in the process's RSS: page cache that nobody maps, the kernel's own, other processes.
  Bytes beyond_rss_bytes;
};

struct RssReport {
  Bytes total_bytes;
  std::vector<PartReport> parts;   // sum to total_bytes
  std::vector<std::string> notes;  // why something is in `other` and not in a part of its own
  Bytes recorder_dirty_bytes{};    // of heapspy itself
  std::vector<GroupReport> groups{};
  Bytes swap_bytes{}, huge_bytes{};  // sums over the groups; swap is not in RSS
  Bytes page_table_bytes{};          // not in RSS
  std::optional<CgroupReport> cgroup{};
};

// The ledger at one snapshot.
struct LedgerReport {
  double time_s = 0;
  std::uint64_t total_bytes = 0, live_bytes = 0, swap_bytes = 0;  // live: resident or not
  std::vector<PartReport> parts;                                  // without details
};

// Pinned bytes at the moment, and whose blocks they are charged to.
struct PinsReport {
  Bytes bytes;  // nullopt: residency is not known
  struct Block {
    std::uint64_t address = 0, size = 0, bytes = 0;
    std::uint32_t thread = 0, site = 0;
    Seconds age_s;
    std::string where;
  };
  std::vector<Block> blocks;  // those that pin most
  struct Row {
    double from = 0;  // requested bytes, or seconds when the blocks were allocated
    std::optional<double> to;
    std::uint64_t blocks = 0, bytes = 0;
  };
  std::vector<Row> sizes, ages;  // those that pin anything
  // If the sites that pin most let go of their blocks: those so far in the list together.
  struct LetGo {
    std::uint32_t site = 0;
    std::string where;
    std::uint64_t blocks = 0, live_bytes = 0;  // its own
    std::uint64_t returned_bytes = 0;          // that malloc_trim(0) could return then, more than now
  };
  std::vector<LetGo> let_go;
};

// What recording itself took of the process.
struct RecorderReport {
  Bytes resident_bytes, dirty_bytes;   // at the moment
  Seconds measured_s;                  // as the recorder timed itself: to begin, append, register threads, take snapshots
  Seconds predicted_s;                 // of the program's calls: events × ns_per_event
  std::optional<double> ns_per_event;  // from bench/README.md; nullopt: nothing was measured for these settings
};

// A place in a call stack; of functions that were inlined into each other one for each.
struct FrameReport {
  SharedText function;  // "" not known
  SharedText file;      // "" not known
  Count line;
  SharedText module;         // path; "" code that was made at run time
  std::uint64_t offset = 0;  // in the module's ELF file; without module, in the process; Java: tells methods apart
  bool inlined = false;      // into the next one
  bool is_java = false;      // a method of Java, or a stub of the JVM: without module
};

// A call stack. Figures of the whole trace unless they say otherwise; estimates in mode sample.
struct SiteReport {
  std::uint32_t id = 0;             // in this trace; 0: blocks whose stack is not known
  std::vector<FrameReport> frames;  // innermost first
  std::string stack_end;            // why there are no more: "whole", "depth", "no rule", "bad stack", "unknown"
  std::uint64_t allocations = 0, bytes = 0, reallocations = 0;
  Bytes live_bytes;  // at the moment
  Count live_blocks;
  Bytes peak_bytes;  // when the program's live bytes were highest
  Count peak_blocks;
  std::uint64_t most_bytes = 0, most_blocks = 0;  // when its own were
  Count temporary;
  Bytes pinned_bytes;  // at the moment
  std::vector<std::uint32_t> threads;
  Bytes end_live_bytes;
  Count end_live_blocks;
  std::vector<std::uint64_t> survivors;  // live bytes at the end by when they were allocated: the run in equal parts
  std::uint64_t ended_blocks = 0;
  Seconds mean_lifetime_s;  // of those
  double lifetimes_s = 0;   // sum over all its blocks, up to the end
  // By reallocations: what they had to carry over at most, of that where the block moved; sizes they ended at, the largest.
  std::uint64_t copied_bytes = 0, moved_bytes = 0, final_bytes = 0, largest_bytes = 0;
  bool suppressed = false;  // as a leak
  Count processes{};        // of several: that have it
};

// A library or program whose code stands in call stacks.
struct ModuleReport {
  std::string path;
  std::string build_id;  // hexadecimal; "" none
  std::string state;     // "found", "changed" (another build lies there now), "missing"
  bool debug_info = false, symbols = false;
};

// Of several processes each has its own: for call stacks, which are summed over them.
inline constexpr const char *kEachPeak = "each peak", *kEachEnd = "each end";

// Where the figures of `arenas` and `rss` are taken.
struct MomentReport {
  Seconds time_s;
  std::string why;  // "peak", "end", "asked"; kEachPeak, kEachEnd
  Bytes live_bytes;
  // Where a moment in seconds was asked for: the moment itself is the last snapshot before it.
  Seconds asked_s;
  Bytes live_at_asked_bytes;
  // "end", but of a process that runs on or was killed: what is known about residency is as old as its last snapshot.
  bool last_snapshot = false;
};

struct PointReport {
  double time_s = 0;
  Bytes live_bytes, system_bytes, rss_bytes, pinned_bytes;
};

// A named moment: heapspy_mark() or `heapspy mark`; or that recording was paused or went on (heapspy_stop, heapspy_start).
struct MarkReport {
  double time_s = 0;
  std::string kind;  // "mark", "paused", "resumed"
  std::string text;
  std::optional<std::uint32_t> thread;  // id; nullopt: from outside
};

struct Report {
  TraceReport trace;
  ProcessReport process;
  TotalsReport totals;
  MomentReport at;
  std::vector<ThreadReport> threads;  // by id
  std::vector<SizeReport> sizes;      // by size
  std::vector<LifetimeReport> lifetimes;
  std::vector<ArenaReport> arenas;
  RssReport rss;
  PinsReport pins{};
  RecorderReport recorder{};
  std::optional<JavaReport> java{};
  // The same at the end of what was recorded, whatever `at` is.
  MomentReport end_at;
  std::vector<ArenaReport> arenas_at_end;
  RssReport rss_at_end;
  PinsReport pins_at_end{};
  std::vector<LedgerReport> ledgers{};  // by time; of many snapshots some
  std::uint64_t ledgers_left_out = 0;
  std::vector<PointReport> timeline;
  std::vector<MarkReport> marks;     // by time
  std::uint64_t marks_left_out = 0;  // further marks of the program's
  std::vector<SiteReport> sites;     // most live bytes first; those with the largest figures
  std::uint64_t sites_left_out = 0;
  std::string site_scope;                   // which blocks alone count for sites; "" all
  std::vector<ModuleReport> modules;        // of the frames of `sites`
  Bytes suppressed_bytes;                   // live at the end, of sites that are suppressed as leaks; nullopt: none are
  std::vector<findings::Finding> findings;  // most bytes first
};

// The thread with this id, nullptr where there is none.
const ThreadReport* thread_with_id(const Report&, std::uint32_t id);
// What is set in the process's environment; nullptr where it is not.
const std::string* setting(const Report&, const char* name);
// A tunable's value within GLIBC_TUNABLES ("glibc.malloc.arena_max"); nullopt where it is not set.
std::optional<std::string> tunable(const Report&, const char* name);
// What limits the number of arenas, as set by the user ("MALLOC_ARENA_MAX=2"); nullopt: the default, 8 per CPU.
std::optional<std::string> arena_max_setting(const Report&);
// What fixes the trim threshold, or switches the dynamic one off ("MALLOC_TRIM_THRESHOLD_=131072"); nullopt: nothing does.
std::optional<std::string> trim_threshold_setting(const Report&);
// What malloc_trim(0) would return, and address space of the heaps that is not resident; nullopt: not known.
Bytes trim_prediction(const std::vector<ArenaReport>&);
Bytes not_resident(const std::vector<ArenaReport>&);
// "main", "arena 3", "mapped blocks", "other": how text names an arena.
std::string arena_label(const ArenaReport&);

}  // namespace heapspy::report
