// Free chunks by bin, by size, and the largest.
#pragma once
#include <cstdint>
#include <vector>

#include "analyzer/heap/chunk_walk.h"

namespace heapspy::heap {

struct BinSum {
  std::uint64_t arena = 0;  // address
  ChunkKind kind = ChunkKind::unsorted;
  unsigned bin = 0;  // as malloc numbers them: fast bins from 0, all others from 1 (unsorted)
  std::uint64_t chunks = 0, bytes = 0, smallest = 0, largest = 0;
};
// Bins that hold anything, by arena and bin; fast bins first.
std::vector<BinSum> bins_of(const HeapCopy&, const HeapWalk&);

struct FreeSizes {
  std::uint64_t from = 0, to = 0;  // [from, to): a power of two and the next
  std::uint64_t cached = 0, fast = 0, binned = 0, bytes = 0;
};
std::vector<FreeSizes> free_sizes(const HeapWalk&);  // sizes that occur

// The largest free chunks, largest first; top chunks too.
std::vector<Chunk> largest_free(const HeapWalk&, std::size_t most);

}  // namespace heapspy::heap
