// Takes copied heaps apart chunk by chunk and says what each chunk is. The walk proves itself (walk_checks.h): where something
// does not fit, it says where and goes no further in that heap.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/heap/glibc_layout.h"
#include "analyzer/heap/heap_copy.h"

namespace heapspy::heap {

enum class ChunkKind : std::uint8_t {
  in_use,       // the program's
  cache_table,  // in use, by malloc itself: a thread's cache
  cached,       // in a thread's cache
  fast,         // in a fast bin
  unsorted,
  small,
  large,
  top,
  fence,    // marks the end of a heap that was left
  foreign,  // main heap: memory that the program took from brk itself
};
inline constexpr std::size_t kChunkKinds = 10;
inline constexpr const char* kChunkKindNames[kChunkKinds] = {
    "in use",    "thread cache table", "thread cache", "fast bin", "unsorted",
    "small bin", "large bin",          "top",          "fence",    "foreign"};
inline constexpr const char* name(ChunkKind kind) { return kChunkKindNames[static_cast<std::size_t>(kind)]; }

struct Chunk {
  std::uint64_t address = 0;  // of its header
  std::uint64_t bytes : 48 = 0;
  std::uint64_t flags : 8 = 0;
  ChunkKind kind : 8 = ChunkKind::in_use;

  std::uint64_t end() const { return address + bytes; }
  std::uint64_t block() const { return address + kChunkHeaderBytes; }  // what malloc returned
  // Free to malloc, thread caches apart: what a trim merges and looks at.
  bool free() const { return kind >= ChunkKind::fast && kind <= ChunkKind::top; }
  bool binned() const { return kind >= ChunkKind::unsorted && kind <= ChunkKind::large; }
};
static_assert(sizeof(Chunk) == 16);

// A thread's cache.
struct ThreadCache {
  std::uint64_t table = 0;  // its table's block
  pid_t tid = 0;            // 0: not known
  std::uint64_t blocks = 0, bytes = 0;
};

struct ThreadArena {
  pid_t tid = 0;
  std::uint64_t arena = 0;  // address; 0: not known, or none yet
};

struct RegionWalk {
  std::size_t first_chunk = 0, end_chunk = 0;  // indices into HeapWalk::chunks
  std::uint64_t first_address = 0;             // where chunks begin
  bool tiled = false;                          // from there to the heap's end without a gap
};

struct WalkTrouble {
  std::uint64_t address = 0;
  std::string text;
};

struct HeapWalk {
  GlibcLayout layout;
  std::vector<Chunk> chunks;        // by address
  std::vector<RegionWalk> regions;  // as HeapCopy::regions
  std::vector<ThreadCache> caches;
  std::vector<ThreadArena> thread_arenas;
  std::vector<WalkTrouble> troubles;  // the first ones
  std::uint64_t trouble_count = 0;

  // For the checks.
  std::vector<std::uint64_t> listed_in_bins, free_by_headers;  // chunks, by arena
  std::uint64_t bin_faults = 0, fast_faults = 0;
  std::uint64_t cached_listed = 0, cached_by_key = 0;
  std::uint64_t keys_left_over = 0;  // in blocks in use that the cache of a thread which has ended once held
  bool cache_key_known = false;
  std::uint64_t cache_faults = 0;

  bool bins_agree(std::size_t arena) const { return listed_in_bins[arena] == free_by_headers[arena]; }
  void trouble(std::uint64_t address, std::string text) {
    trouble_count++;
    if (troubles.size() < 20) troubles.push_back({address, std::move(text)});
  }
};

// Linear in chunks. `copy` may hold anything.
HeapWalk walk_heaps(const HeapCopy& copy, const GlibcLayout& layout);

// Index into HeapCopy::regions of the region that holds `address`; regions.size(): none does.
std::size_t region_at(const HeapCopy&, std::uint64_t address);

}  // namespace heapspy::heap
