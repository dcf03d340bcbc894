// What the chunks and the resident pages of each arena come to, in the words of the contract. How a resident page counts:
//   a block in use on it            bytes in use are in use, the rest is pinned (cached blocks on it too)
//   none, and a trim returns it     trimmable
//   else                            malloc's own headers are in use, the rest is cached: thread caches, tops of
//                                   secondary arenas, the page on which a free chunk begins
// so in use (its resident part) + pinned + trimmable + cached = resident for each heap.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/heap/chunk_walk.h"
#include "analyzer/heap/trim_prediction.h"

namespace heapspy::heap {

// Resident bytes.
struct ResidentParts {
  std::uint64_t in_use = 0, pinned = 0, trimmable = 0, cached = 0;
  std::uint64_t secondary_top = 0;  // whole pages of it; within cached
  std::uint64_t free() const { return pinned + trimmable + cached; }
  std::uint64_t sum() const { return in_use + free(); }
  void add(const ResidentParts&);
};

// Chunks by kind, resident or not.
struct ChunkSums {
  std::array<std::uint64_t, kChunkKinds> count{}, bytes{};
  std::uint64_t headers = 0;  // malloc_state, heap_info
  void add(const Chunk& chunk) {
    count[static_cast<std::size_t>(chunk.kind)]++;
    bytes[static_cast<std::size_t>(chunk.kind)] += chunk.bytes;
  }
  std::uint64_t of(ChunkKind kind) const { return bytes[static_cast<std::size_t>(kind)]; }
  std::uint64_t blocks(ChunkKind kind) const { return count[static_cast<std::size_t>(kind)]; }
  // The program's blocks with headers and rounding, and malloc's own structures.
  std::uint64_t in_use() const { return of(ChunkKind::in_use) + of(ChunkKind::cache_table) + of(ChunkKind::fence) + headers; }
  std::uint64_t free() const;  // all that is not in use, thread caches included
};

// The highest chunk that is not free: nothing below it can leave by shrinking the heap.
struct Plug {
  std::uint64_t address = 0;  // of the block
  std::uint64_t bytes = 0;    // of the chunk
  ChunkKind kind = ChunkKind::in_use;
  std::optional<std::uint64_t> free_below_bytes;  // resident and free below it in its heap
};

enum class PageUse : std::uint8_t { absent, full, mostly_used, half_used, hardly_used, trimmable, cached };

struct RegionAccount {
  ChunkSums chunks;
  std::optional<ResidentParts> resident;        // nullopt: not known, or the heap was not tiled
  std::optional<std::uint64_t> resident_bytes;  // all of its resident pages, whether it was tiled or not
  std::uint64_t trimmable_at_most = 0;          // were all of it resident
  std::optional<Plug> plug;
  // Where `resident` is known, by page.
  std::vector<PageUse> pages;
  std::vector<std::uint32_t> used;  // bytes in use; may be more than a page where a walk is wrong
  // Where `resident` is known: of each of its chunks the pinned bytes that are charged to it, those of a page in equal parts to
  // the blocks on it. They sum to resident->pinned, foreign memory's share apart. Filled by share_pinned (pinned_shares.h).
  std::vector<std::uint32_t> pinned_by_chunk;
};

struct ArenaAccount {
  bool tiled = false;  // every heap; else only addresses and resident_bytes say anything
  std::uint64_t heaps = 0;
  std::uint64_t held_bytes = 0;    // by the walk: from the first heap's begin to each heap's end
  std::uint64_t system_bytes = 0;  // by malloc's own count
  ChunkSums chunks;
  std::optional<ResidentParts> resident;
  std::optional<std::uint64_t> resident_bytes;
  std::uint64_t trimmable_at_most = 0;
  std::optional<Plug> plug;  // of the heap with the top chunk
};

struct MappedAccount {
  std::uint64_t blocks = 0, bytes = 0;
  std::optional<std::uint64_t> resident_bytes;
};

struct HeapAccount {
  std::vector<RegionAccount> regions;  // as HeapCopy::regions
  std::vector<ArenaAccount> arenas;    // as HeapCopy::arenas
  MappedAccount mapped;
};

HeapAccount account_heaps(const HeapCopy&, const HeapWalk&);

}  // namespace heapspy::heap
