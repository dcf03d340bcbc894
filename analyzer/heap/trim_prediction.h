// What malloc_trim(0) would give back, by what it does (malloc/malloc.c: mtrim, systrim), the same from 2.8 to 2.43:
//   every arena    fast bins are merged into their neighbours; of every free chunk the whole pages behind its first 48 bytes
//   main arena     and of the top chunk all but its first 33 bytes, in whole pages (or huge pages, where
//                  glibc.malloc.hugetlb=1), if it still ends where brk does
// It leaves alone what threads have cached and the top chunks of all other arenas.
#pragma once
#include <cstdint>
#include <vector>

#include "analyzer/heap/chunk_walk.h"

namespace heapspy::heap {

struct TrimRange {
  std::size_t region = 0;            // index into HeapCopy::regions
  std::uint64_t start = 0, end = 0;  // whole pages, resident or not
};

// By address. Only of heaps that were tiled. `gone` (may be null; by chunk): blocks in use that count as freed.
std::vector<TrimRange> predict_trim(const HeapCopy&, const HeapWalk&, const std::vector<bool>* gone = nullptr);
// The resident bytes of them: of heaps whose residency is known.
std::uint64_t resident_bytes(const HeapCopy&, const std::vector<TrimRange>&);

}  // namespace heapspy::heap
