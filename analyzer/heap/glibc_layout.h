// Where things stand in glibc's malloc, by version: malloc/malloc.c and malloc/arena.c, 64-bit. A layout is never assumed: it
// is chosen by what the memory shows (candidate_layouts), and the walk then proves it.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace heapspy::heap {

inline constexpr std::uint64_t kBins = 127;  // pairs of words in malloc_state.bins
inline constexpr std::uint64_t kFastBins = 10;
inline constexpr std::uint64_t kMinChunkBytes = 32, kChunkHeaderBytes = 16, kChunkAlignment = 16;
inline constexpr std::uint64_t kSmallestLargeChunk = 1024;
inline constexpr std::uint64_t kHeapRegionBytes = 64ull << 20;  // HEAP_MAX_SIZE, unless heaps are of huge pages

// Bits of a chunk's size word.
inline constexpr std::uint64_t kPreviousInUse = 1, kMapped = 2, kOtherArena = 4, kSizeMask = ~std::uint64_t{7};

// Offsets in malloc_state from its `bins`; the same in every version.
inline constexpr std::int64_t kTopFromBins = -16, kNextFromBins = 2048, kAfterNextFromBins = 2064;

// malloc_par (`mp_`). 0 where a version does not have a field (none stands at 0).
struct ParametersLayout {
  unsigned kind = 0;
  unsigned huge_trim = 0;  // thp_pagesize: the main heap is trimmed in such units
  unsigned huge_page = 0;  // hp_pagesize: heaps are four of these
  unsigned mapped_count = 0, mapped_bytes = 0, sbrk_base = 0, cache = 0;
  unsigned bytes = 0;
};
inline constexpr ParametersLayout kParametersLayouts[] = {
    {0, 0, 0, 40, 56, 80, 0, 88},        // up to 2.25
    {1, 0, 0, 40, 56, 72, 80, 112},      // 2.26 to 2.34
    {2, 40, 48, 60, 80, 96, 104, 136},   // 2.35 to 2.42
    {3, 48, 56, 68, 88, 104, 112, 144},  // 2.43
};

struct GlibcLayout {
  unsigned minor = 0;         // the oldest 2.N of this layout
  unsigned newest_minor = 0;  // and the newest
  unsigned bins = 112;        // offset in malloc_state
  bool fast_bins = true;
  bool attached_threads = true;  // a word between next_free and system_mem
  unsigned parameters = 2;       // kind of kParametersLayouts
  unsigned heap_info_bytes = 0x30;
  bool safe_linking = true;  // lists of thread caches and fast bins hold fd ^ (address >> 12)

  enum class CacheKey { none, own_address, random };
  unsigned cache_bins = 64;                // 0: no thread caches
  unsigned cache_count_bytes = 2;          // of each counter
  bool cache_counts_free_slots = false;    // 2.42: counters count down
  CacheKey cache_key = CacheKey::random;   // what the second word of a cached block is
  bool mapped_size_has_no_header = false;  // 2.43

  unsigned arena_bytes() const { return bins + (attached_threads ? 2088u : 2080u); }
  std::uint64_t cache_bytes() const { return cache_bins * (cache_count_bytes + std::uint64_t{8}); }
  // Of the chunk that holds a thread cache; up to 32 bytes more in practice.
  std::uint64_t cache_chunk_bytes() const { return (cache_bytes() + 8 + 15) / 16 * 16; }
  const ParametersLayout& parameters_layout() const { return kParametersLayouts[parameters]; }
};

// What memory shows of the version.
struct LayoutEvidence {
  unsigned bins = 0;                        // offset in malloc_state, by closing the ring of arenas
  std::optional<unsigned> parameters;       // kind of malloc_par that was found
  std::optional<unsigned> heap_info_bytes;  // by the address of a secondary arena
  std::optional<unsigned> minor;            // "release version 2.36" in the library's file
};

// All layouts that agree with the evidence, the most likely first. A version that contradicts the rest is left aside.
std::vector<GlibcLayout> candidate_layouts(const LayoutEvidence&);

}  // namespace heapspy::heap
