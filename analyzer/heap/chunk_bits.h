// Which chunk begins where, and in which list it was found: one byte per 16 bytes of heap, so that a list of a million chunks
// is followed without a search per chunk.
#pragma once
#include <cstdint>
#include <vector>

#include "analyzer/heap/chunk_walk.h"

namespace heapspy::heap {

class ChunkBits {
 public:
  enum : std::uint8_t { kStart = 1, kFree = 2, kUnsorted = 4, kBinned = 8, kFast = 16, kCached = 32, kCacheTable = 64 };

  ChunkBits(const HeapCopy& copy, const HeapWalk& walk);

  // The byte of the chunk whose header is at `address`; nullptr: no chunk begins there.
  std::uint8_t* at(std::uint64_t address);
  // A word of a heap; 0 outside of all heaps.
  std::uint64_t word(std::uint64_t address) const;
  // Gives the chunks the kinds that their lists say.
  void settle_kinds(HeapWalk& walk) const;

 private:
  const HeapCopy& copy_;
  std::vector<std::vector<std::uint8_t>> bits_;  // by region
  mutable std::size_t last_ = 0;                 // region that was looked at
  std::size_t region_of(std::uint64_t address) const;
};

}  // namespace heapspy::heap
