// What the model must know about the allocator of the traced process, and the arithmetic of its chunks.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/trace/reader.h"

namespace heapspy::model {

inline constexpr std::uint64_t kPageBytes = 4096;  // unit of the page map; residency in larger pages is spread over it
inline constexpr std::uint64_t kHeapRegionBytes = 64ull << 20;  // glibc: HEAP_MAX_SIZE (malloc/arena.c), aligned to itself

// Filled from a trace's process chunk by heap_facts(); tests fill it by hand.
struct HeapFacts {
  bool glibc = true;               // false: another allocator answers; then nothing is claimed about headers, bins, trim
  std::uint32_t glibc_minor = 36;  // 2.N; 0 unknown
  bool forked = false;             // blocks of the parent live on unseen: free, pinned and trimmable are unknown
  // Blocks live of which the trace cannot know (modes sample and count, a ring that was overwritten, a pause, lost events,
  // calls that another library answered), or heaps are of a shape that it does not tell (glibc.malloc.hugetlb): what malloc
  // holds is one sum.
  bool unrecorded = false;
  std::uint32_t cache_depth = 7;              // blocks per bin of a thread cache; 0: there is none (before 2.26, or tuned off)
  std::uint64_t cache_limit = 1032;           // largest request that a thread cache takes, bytes
  std::uint64_t mmap_threshold = 128u << 10;  // smallest M_MMAP_THRESHOLD that may have held, bytes
  bool dynamic_threshold = true;              // no setting ends it (dynamic_threshold.h)
};

// Reads allocator, version and MALLOC_*/GLIBC_TUNABLES settings as recorded. Values that cannot be read are ignored,
// as glibc does.
HeapFacts heap_facts(const trace::ProcessInfo&);

struct Span {
  std::uint64_t begin = 0, end = 0;  // [begin, end)
};

// Size of the chunk that glibc carves for `request` bytes: malloc/malloc.c request2size with 8-byte size words and
// 16-byte alignment. The real one may be 16 bytes larger, where the remainder was too small to stand alone.
inline std::uint64_t glibc_chunk_bytes(std::uint64_t request) {
  const std::uint64_t bytes = (request + 8 + 15) & ~15ull;
  return bytes < 32 ? 32 : bytes;
}

// The bytes that a block keeps others from using: its size word at address - 8 up to the end of its usable bytes (which
// reach 8 bytes into the next chunk's prev_size). As many bytes as the chunk has, and what the block asked for is
// always within. Without glibc: the bytes asked for.
inline Span occupied(const HeapFacts& facts, std::uint64_t address, std::uint64_t request) {
  if (!facts.glibc) return {address, address + request};
  return {address - 8, address - 8 + glibc_chunk_bytes(request)};
}

}  // namespace heapspy::model
