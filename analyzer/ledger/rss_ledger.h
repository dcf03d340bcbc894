// Where a process's RSS is: parts with names that sum to it exactly.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/moment.h"

namespace heapspy::ledger {

// The parts, in the order of a report. The list exists once.
#define HEAPSPY_LEDGER_PARTS(X)                      \
  X(malloc_live, "malloc: live")                     \
  X(malloc_overhead, "malloc: rounding and headers") \
  X(malloc_pinned, "malloc: free, pinned")           \
  X(malloc_trimmable, "malloc: free, trimmable")     \
  X(malloc_cached, "malloc: free, cached")           \
  X(malloc_undivided, "malloc: not told apart")      \
  X(malloc_unsplit, "malloc")                        \
  X(java_heap, "Java heap")                          \
  X(java_code, "metaspace and code")                 \
  X(java_collector, "GC structures")                 \
  X(thread_stacks, "thread stacks")                  \
  X(files, "libraries and files")                    \
  X(shared_memory, "shared memory")                  \
  X(heapspy, "heapspy itself")                       \
  X(other, "other")

enum class PartKind : std::uint8_t {
#define X(id, text) id,
  HEAPSPY_LEDGER_PARTS(X)
#undef X
};

inline constexpr std::string_view kPartNames[] = {
#define X(id, text) text,
    HEAPSPY_LEDGER_PARTS(X)
#undef X
};
inline constexpr std::size_t kParts = std::size(kPartNames);
inline constexpr std::string_view name(PartKind kind) { return kPartNames[static_cast<std::size_t>(kind)]; }

// A piece of a part, with its name: a library, blocks in mappings of their own, the code cache …
struct Detail {
  std::string name;
  std::uint64_t bytes = 0;
};

struct Part {
  PartKind kind = PartKind::other;
  std::uint64_t bytes = 0;
  std::vector<Detail> details{};  // sum to `bytes`, largest first; empty where there is nothing to tell apart
};

// Whole mappings by what they are for: the kernel counts swap and huge pages by mapping. Malloc's parts are one here.
struct Group {
  std::string name;
  std::uint64_t mappings = 0, bytes = 0, swap_bytes = 0, huge_bytes = 0;
};

struct RssLedger {
  std::uint64_t total_bytes = 0;
  // Every kind once, in order; sums to total_bytes. java_* only where a JVM runs; malloc_unsplit instead of malloc's other
  // parts where the trace does not know every block by design (HeapFacts::unrecorded); malloc_undivided only where there is
  // any: a forked child's heaps, where the parent's blocks cannot be told from free memory.
  std::vector<Part> parts;
  // Those that have anything in RAM or in swap, in the order of `parts`. A mapping that malloc has a part of counts as
  // malloc's.
  std::vector<Group> groups;
  std::uint64_t swap_bytes = 0, huge_bytes = 0;  // sums over the groups; swap is not in RSS, huge pages are
  // Of `heapspy itself`, pages that the kernel has to write back or could not drop. Not known where the snapshot has counted
  // pages without asking which are dirty (a small process's).
  std::optional<std::uint64_t> recorder_dirty_bytes;
  std::vector<std::string> notes;  // one line each: why something is in `other` and not in a part of its own

  std::uint64_t bytes(PartKind) const;  // 0 if there is no such part
};

inline constexpr std::size_t kDetails = 12;  // named ones of a part; the rest is one, "and 31 more"

// `trace_path` (may be empty): the mapped trace file counts as heapspy's, whatever its name. Nothing is known without a
// snapshot: then the ledger is empty (no parts, total 0).
//
// Malloc's parts are the pages that the model counted (MappingShare), at most what smaps says is resident in the same
// mapping; the rest of a mapping goes by what the mapping is for. smaps and the page bits are read one after the other
// while the program runs, so the two may differ by what it touched meanwhile: that difference lands in `other`.
//
// Without `details`, parts have none and there are no groups: for many moments.
RssLedger rss_ledger(const model::Moment&, std::string_view trace_path = {}, bool details = true);

}  // namespace heapspy::ledger
