// Follows the lists of the bins: what the arenas themselves say is free.
#pragma once
#include "analyzer/heap/chunk_bits.h"

namespace heapspy::heap {

void list_bins(const HeapCopy&, HeapWalk&, ChunkBits&);       // unsorted, small, large
void list_fast_bins(const HeapCopy&, HeapWalk&, ChunkBits&);  // none since 2.43

// The address behind a pointer that stands at `position` in a list of a thread cache or a fast bin.
inline std::uint64_t revealed(const GlibcLayout& layout, std::uint64_t position, std::uint64_t stored) {
  return layout.safe_linking ? (position >> 12) ^ stored : stored;
}

}  // namespace heapspy::heap
