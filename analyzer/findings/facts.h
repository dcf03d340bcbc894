// The numbers that verdicts are made from: one process at one moment. Filled by report/ from the model and the ledger;
// verdicts see nothing else (no files, no symbols, no other verdict). Unknown is nullopt.
// Bytes are bytes, times are seconds from the start of the process.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/findings/finding.h"

namespace heapspy::findings {

// The highest live block of an arena's last heap, under which free pages lie.
struct PlugFacts {
  std::uint64_t address = 0;
  std::uint64_t block_bytes = 0;  // asked for
  std::string thread;             // that allocated it
  std::optional<double> age_s;
  std::uint64_t free_below_bytes = 0;  // resident free bytes under it in its heap
  std::string site{};                  // that allocated it, as SiteFacts::where; "" not known
};

struct ArenaFacts {
  std::string label;  // "main", "arena 3"
  bool main = false;
  bool glibc_heap = false;  // main or secondary, not mapped blocks or another allocator's memory
  std::uint64_t live_bytes = 0;
  std::uint64_t live_blocks = 0;
  std::optional<std::uint64_t> resident_bytes, trimmable_bytes, pinned_bytes, cached_bytes;
  std::optional<std::uint64_t> secondary_top_bytes;  // of cached_bytes: a secondary arena's free top
  std::optional<std::uint64_t> thread_cache_bytes;   // of cached_bytes: pages where only thread caches hold blocks
  std::vector<std::string> threads;                  // names of those that allocated in it
  std::optional<PlugFacts> plug;
  std::uint64_t trimmable_large_bytes =
      0;  // of trimmable_bytes: where large blocks were that a fixed threshold would have mapped
};

// The dynamic threshold, where the free of a mapped block has raised it.
struct ThresholdFacts {
  std::uint64_t block_bytes = 0;  // of that block
  std::uint64_t mmap_threshold_bytes = 0, trim_threshold_bytes = 0;
  std::uint64_t large_in_heaps = 0;  // blocks of 128 KiB and more that came from a heap
  std::optional<double> time_s{};
};

// What the blocks of all arenas would need at the least in so many.
struct ArenaNeedFacts {
  std::uint64_t arenas = 0, bytes = 0;
};

// Calls that took an arena's lock while another thread did so too, in the same millisecond.
struct ConcurrencyFacts {
  std::uint64_t calls = 0;
  double calls_per_s = 0, threads_at_once = 0;  // in such times
};

// If the sites up to this one in the list let go of their blocks.
struct FreedSiteFacts {
  std::string where;
  std::uint64_t blocks = 0, live_bytes = 0, returned_bytes = 0;
};

enum class PartKind { malloc, recorder, other };

struct PartFacts {
  std::string name;
  PartKind kind = PartKind::other;
  std::uint64_t bytes = 0;
};

// Whole mappings by what they are for; malloc's are one.
struct GroupFacts {
  std::string name;
  std::uint64_t mappings = 0, bytes = 0, swap_bytes = 0, huge_bytes = 0;
};
inline constexpr const char *kMallocGroup = "malloc", *kStacksGroup = "thread stacks";  // as the ledger calls them

struct SizeFacts {
  std::uint64_t from = 0, to = 0;  // requested bytes, [from, to)
  std::uint64_t allocations = 0, live_blocks = 0, live_bytes = 0;
};

struct PointFacts {
  double time_s = 0;
  std::uint64_t live_bytes = 0;
};

struct PinnerFacts {
  std::string thread;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t blocks = 0;  // of it that pin anything
};

// A call stack that a verdict may name.
struct SiteFacts {
  std::string where;  // its frame that tells most: "fill (src/shop.cpp:20)"
  std::uint64_t allocations = 0;
  std::uint64_t pinned_bytes = 0, pinning_blocks = 0;  // at the moment
  std::uint64_t end_live_bytes = 0, end_live_blocks = 0;
  std::vector<std::uint64_t> survivors;  // of those, by when they were allocated: the run in equal parts, oldest first
  std::uint64_t reallocations = 0;
  std::uint64_t copied_bytes = 0, moved_bytes = 0, final_bytes = 0, largest_bytes = 0;  // as SiteReport
  bool suppressed = false;                                                              // as a leak
  // Of a JVM: the native library outside of the JDK whose code allocated there, and the method of Java's that called it.
  std::string jni_library{}, java_caller{};
};

// Blocks of a JVM that call stacks tell the purpose of.
struct JavaUseFacts {
  std::uint64_t live_blocks = 0, live_bytes = 0;              // at the moment
  std::uint64_t ended_blocks = 0, ended_by_others = 0;        // in the whole run; by another thread than had asked for them
  std::string ended_by;                                       // the one of those that ended most
  std::uint64_t ended_by_it = 0;                              // … so many
  std::vector<std::pair<std::string, std::uint64_t>> places;  // code that asked, with live bytes; most first
};

struct JavaFacts {
  JavaUseFacts zip_streams, direct_buffers;
  std::uint64_t compiler_live_bytes = 0;                      // at the moment, from call stacks of compiler threads only
  std::uint64_t compiler_threads = 0, collector_threads = 0;  // of the whole run
  std::uint64_t collector_live_bytes = 0;                     // at the end
  std::optional<std::uint64_t> cpus;                          // that the process may use: may run on, and has a quota for
  std::optional<double> cpu_quota;                            // of its cgroups, where that is what limits it
  std::optional<std::string> max_direct_setting, collector_threads_setting;  // as on the command line
};

struct Facts {
  // The moment.
  std::string moment;  // "at the end", "at the peak of RSS", "at 3.0 s"
  std::optional<double> time_s;
  bool at_peak = false;  // of RSS
  // The process.
  std::uint32_t pid = 0;
  bool running = false;                          // still alive, so commands can reach it
  bool glibc = false;                            // glibc's malloc answered
  std::string command;                           // as one would type it
  std::uint64_t threads = 0;                     // seen in the whole run
  std::optional<std::uint64_t> arena_limit;      // 8 x CPUs
  bool locked = false;                           // by mlockall: no trim returns anything
  std::optional<std::string> arena_max_setting;  // as set: "MALLOC_ARENA_MAX=2"
  std::optional<std::string> trim_threshold_setting;
  // At the moment.
  std::optional<std::uint64_t> rss_bytes;
  std::vector<PartFacts> parts;
  std::vector<GroupFacts> groups;
  std::vector<ArenaFacts> arenas;
  std::optional<std::uint64_t> live_bytes;
  std::optional<std::uint64_t> mappings, executable_mappings, page_table_bytes;
  std::vector<PinnerFacts> pinners;  // most bytes first
  std::vector<FreedSiteFacts> freed_sites;
  std::optional<ThresholdFacts> threshold;
  std::vector<ArenaNeedFacts> arena_needs;  // by number
  // Of the whole run.
  double end_s = 0;
  std::uint64_t end_live_bytes = 0;
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t bytes_allocated = 0;
  std::uint64_t secondary_arenas = 0;  // at the moment
  ConcurrencyFacts concurrency;
  bool estimated = false;            // live and allocated bytes are estimates from samples
  std::vector<PointFacts> timeline;  // by time
  std::vector<SizeFacts> sizes_at_end;
  // Those with the largest figures of any kind; empty where no call stacks were recorded.
  std::vector<SiteFacts> sites;
  std::uint64_t suppressed_growth_bytes = 0;  // live at the end, not from the start of the run, of suppressed sites
  std::optional<JavaFacts> java;              // of a JVM
};

// What is smaller than this share of RSS changes no decision: no verdict is made of it.
inline constexpr double kWorthShare = 0.02;
// … nor of less than this, whatever the share: a process of a few MiB has no memory problem.
inline constexpr std::uint64_t kWorthBytes = 4ull << 20;

// True where `bytes` is worth a verdict in a process of this size (RSS unknown: by kWorthBytes alone).
bool worth(const Facts&, std::uint64_t bytes);
Severity severity_of(const Facts&, std::uint64_t bytes);
// The arena whose trimmable bytes one live block explains, so that `plug` counts them and `retained` does not; nullptr:
// there is none. It holds most of what is trimmable in the process, most of that lies under the block, and hardly any
// other block lives in it (else freeing the highest would only uncover the next).
const ArenaFacts* plugged_arena(const Facts&);
// The last point of nearly the most live memory, where that is at the end of a run (of a second at least: shorter ones fill and
// free, and that is all they do) and was freed as the program ended, as interpreters do it: what is left says nothing. nullptr:
// not so.
const PointFacts* freed_as_it_ended(const Facts&);
// Fewer arenas would make threads wait.
bool threads_compete(const Facts&);
// nullptr: there is no such group.
const GroupFacts* group_named(const Facts&, std::string_view name);
// Trimmable, pinned and cached over all arenas; what could be freed by some means. nullopt: residency not known.
std::optional<std::uint64_t> free_bytes(const Facts&);

}  // namespace heapspy::findings
