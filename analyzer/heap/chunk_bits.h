// Which chunk begins where, and in which list it was found: a byte per chunk, and for each 2 KiB of heap the first chunk that
// begins in it, so that a list of a million chunks is followed without a search through all of them.
#pragma once
#include <cstdint>
#include <vector>

#include "analyzer/heap/chunk_walk.h"

namespace heapspy::heap {

class ChunkBits {
 public:
  enum : std::uint8_t { kFree = 1, kUnsorted = 2, kBinned = 4, kFast = 8, kCached = 16, kCacheTable = 32 };

  // Both must live as long as this; the walk's chunks stay as they are until settle_kinds.
  ChunkBits(const HeapCopy& copy, const HeapWalk& walk);

  // The byte of the chunk whose header is at `address`; nullptr: no chunk begins there.
  std::uint8_t* at(std::uint64_t address);
  // Of a chunk by its index.
  std::uint8_t& of(std::size_t chunk) { return bits_[chunk]; }
  // A word of a heap; 0 outside of all heaps.
  std::uint64_t word(std::uint64_t address) const;
  // Gives the chunks the kinds that their lists say.
  void settle_kinds(HeapWalk& walk) const;

 private:
  const HeapCopy& copy_;
  const HeapWalk& walk_;
  std::vector<std::uint8_t> bits_;                // by chunk
  std::vector<std::vector<std::size_t>> firsts_;  // by region and unit of 2 KiB: the first chunk that begins there or behind it
  mutable std::size_t last_ = 0;                  // region that was looked at
  std::size_t region_of(std::uint64_t address) const;
};

}  // namespace heapspy::heap
