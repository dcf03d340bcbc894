// What each arena holds at one moment, in the words of the contract (live, in use, resident, trimmable, pinned, cached),
// and which blocks and threads pin it. The heart of the model: computed from the live blocks, the page map, the thread
// caches and the snapshot's resident pages.
//
// How a resident page of a heap is counted:
//   a live block on it                 used bytes are in use, the rest is pinned (cached blocks on it too)
//   no live block, but a cached one    the heap's own headers on it are in use, the rest is cached
//   none of both, in a free chunk      trimmable, if malloc_trim(0) would give this page back: all whole pages of free
//                                      chunks in every arena, the main arena's top included …
//   … in a secondary arena's top       cached: malloc_trim leaves it alone
// A resident page of an mmapped block is in use as a whole. So resident = in use (resident part) + pinned + trimmable +
// cached holds exactly for each arena and their sum.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "analyzer/model/arena_map.h"
#include "analyzer/model/heap_facts.h"
#include "analyzer/model/page_map.h"
#include "analyzer/model/site_scope.h"
#include "analyzer/model/thread_table.h"
#include "analyzer/trace/event.h"
#include "analyzer/trace/snapshot.h"

namespace heapspy::model {

// The block that keeps a heap from shrinking: its highest live one.
struct Plug {
  trace::Block block;
  std::uint64_t free_below_bytes = 0;  // resident free bytes (pinned, trimmable, cached) below it in its heap
};

// Resident bytes by what they are. Every part counts resident bytes only.
struct ResidentParts {
  std::uint64_t live = 0;      // asked for by live blocks
  std::uint64_t overhead = 0;  // their headers and rounding, and the allocator's own headers
  std::uint64_t pinned = 0, trimmable = 0, cached = 0;
  // Of `cached`: free tops of secondary arenas, which malloc_trim leaves alone; and pages that a block in a thread cache holds.
  // The rest is pages of headers and fenceposts, which glibc cannot give back either.
  std::uint64_t cached_tops = 0, cached_thread_caches = 0;
  std::uint64_t trimmable_large = 0;  // of `trimmable`: pages of large blocks that a fixed threshold would have mapped
  // Of `live` and `overhead`: blocks in mappings of their own.
  std::uint64_t mapped_live = 0, mapped_overhead = 0;
  std::uint64_t in_use() const { return live + overhead; }
  std::uint64_t free() const { return pinned + trimmable + cached; }
  std::uint64_t sum() const { return in_use() + free(); }
  void add(const ResidentParts& more) {
    for (std::uint64_t ResidentParts::*each :
         {&ResidentParts::live, &ResidentParts::overhead, &ResidentParts::pinned, &ResidentParts::trimmable,
          &ResidentParts::cached, &ResidentParts::cached_tops, &ResidentParts::cached_thread_caches,
          &ResidentParts::trimmable_large, &ResidentParts::mapped_live, &ResidentParts::mapped_overhead})
      this->*each += more.*each;
  }
};

// `report --json`: arenas[]. nullopt: not known (no snapshot, no residency, not glibc, forked).
struct ArenaFigures {
  std::uint32_t id = 0;  // from 1, in the order main, secondary by address, mmapped, other
  ArenaKind kind = ArenaKind::other;
  std::uint64_t address = 0;
  std::uint64_t heaps = 0;
  std::vector<trace::ThreadId> threads;           // whose blocks live there, or whose newest block came from there; by id
  std::uint64_t live_bytes = 0, live_blocks = 0;  // resident or not
  std::optional<std::uint64_t> in_use_bytes;      // resident or not
  std::optional<std::uint64_t> system_bytes;
  std::optional<std::uint64_t> resident_bytes;
  std::optional<std::uint64_t> trimmable_bytes, pinned_bytes, cached_bytes;
  std::optional<double> fragmentation;  // 1 - live / resident, not below 0; nullopt where nothing is resident
  std::optional<ResidentParts> parts;   // sums to resident_bytes; nullopt where trimmable_bytes is
  std::optional<Plug> plug;             // main: of the heap; secondary: of its newest heap with a live block
};

// What the allocator's resident pages in one mapping of the snapshot are. For the ledger.
struct MappingShare {
  std::uint32_t mapping = 0;  // index into Snapshot::mappings
  ResidentParts parts;
  std::uint64_t unsplit_bytes = 0;  // resident in heaps, but whether it is free is not known; parts.live is not in it
};

// Pinned bytes by the size or the age of the blocks they are charged to.
struct PinRow {
  double bytes = 0;
  std::uint64_t blocks = 0;  // that pin anything
};
inline constexpr std::size_t kPinSizes = 18;  // requested bytes below 16, 32, 64 … 1 MiB; the last has the rest

struct ThreadPin {
  trace::ThreadId thread = trace::ThreadId::none;
  std::uint64_t bytes = 0;   // pinned bytes charged to its blocks; sums over threads to the pinned bytes of the process
  std::uint64_t blocks = 0;  // that pin anything
};

struct PinningBlock {
  trace::Block block;
  std::uint64_t bytes = 0;  // charged to it, rounded
};

struct ArenaState {
  std::vector<ArenaFigures> arenas;   // those that hold anything
  ArenaFigures process;               // sums over them; kind other, id 0, no plug
  std::vector<MappingShare> shares;   // by mapping, each at most once
  std::vector<ThreadPin> pins;        // most bytes first
  std::vector<PinningBlock> pinning;  // most bytes first
  std::array<PinRow, kPinSizes> pins_by_size{};
  std::array<PinRow, SiteHold::kAges> pins_by_age{};  // by when they were allocated, as SiteHold::born_bytes
  std::vector<SiteHold> sites;                        // by site; only where ArenaInputs::sites asks for them
  bool unrecorded = false;                            // HeapFacts::unrecorded
};

struct ArenaInputs {
  const HeapFacts& facts;
  PageMap& pages;                             // large blocks are put on it meanwhile; as before when the call returns
  const trace::Snapshot* snapshot = nullptr;  // nullptr: none; residency is unknown then
  std::function<void(const std::function<void(const trace::Block&)>&)> for_each_live;
  // Newest address that a thread allocated, by thread id; may be empty.
  const ThreadTable<std::uint64_t>* newest_address = nullptr;
  const SiteScope* sites = nullptr;  // nullptr: no call stacks are known
  trace::Tick tick = 0;              // the moment; for the ages of sites' blocks
};

// Two passes over the live blocks and one over the pages of the heaps. Memory besides the results: 32 bytes per page that
// holds blocks of kind `other`.
ArenaState arena_state(const ArenaInputs&, std::size_t top_blocks = 20);

// System and pinned bytes alone, without a pass over the blocks: for the curve.
struct BriefState {
  std::optional<std::uint64_t> system_bytes, pinned_bytes;
  std::vector<MappingShare> shares;  // where asked for; as ArenaState::shares
};
// With `shares` there is a pass over the blocks where small ones lie outside all heaps, which is rare.
BriefState brief_state(const ArenaInputs&, bool shares = false);

}  // namespace heapspy::model
