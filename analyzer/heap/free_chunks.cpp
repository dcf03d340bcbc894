#include "analyzer/heap/free_chunks.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

namespace heapspy::heap {
namespace {

// malloc/malloc.c: bin_index and largebin_index_64.
unsigned bin_index(std::uint64_t bytes) {
  const auto at = [bytes](unsigned shift) { return static_cast<unsigned>(bytes >> shift); };
  if (bytes < kSmallestLargeChunk) return at(4);
  if (at(6) <= 48) return 48 + at(6);
  if (at(9) <= 20) return 91 + at(9);
  if (at(12) <= 10) return 110 + at(12);
  if (at(15) <= 4) return 119 + at(15);
  if (at(18) <= 2) return 124 + at(18);
  return 126;
}

}  // namespace

std::vector<BinSum> bins_of(const HeapCopy& copy, const HeapWalk& walk) {
  std::map<std::tuple<std::size_t, bool, unsigned>, BinSum> bins;
  for (std::size_t r = 0; r < copy.regions.size(); r++)
    for (std::size_t i = walk.regions[r].first_chunk; i < walk.regions[r].end_chunk; i++) {
      const Chunk& chunk = walk.chunks[i];
      if (!chunk.binned() && chunk.kind != ChunkKind::fast) continue;
      const bool fast = chunk.kind == ChunkKind::fast;
      const std::uint64_t bytes = chunk.bytes;
      const unsigned bin = fast                                ? static_cast<unsigned>(bytes / 16 - 2)
                           : chunk.kind == ChunkKind::unsorted ? 1
                                                               : bin_index(bytes);
      const std::size_t arena = copy.regions[r].arena;
      BinSum& sum = bins[{arena, !fast, bin}];
      sum.arena = copy.arenas[arena].address;
      sum.kind = chunk.kind;
      sum.bin = bin;
      sum.smallest = sum.chunks ? std::min(sum.smallest, bytes) : bytes;
      sum.largest = std::max(sum.largest, bytes);
      sum.chunks++;
      sum.bytes += bytes;
    }
  std::vector<BinSum> list;
  for (const auto& [key, sum] : bins) list.push_back(sum);
  return list;
}

std::vector<FreeSizes> free_sizes(const HeapWalk& walk) {
  std::map<std::uint64_t, FreeSizes> sizes;
  for (const Chunk& chunk : walk.chunks) {
    if (chunk.kind != ChunkKind::cached && chunk.kind != ChunkKind::fast && !chunk.binned()) continue;
    const std::uint64_t bytes = chunk.bytes, from = std::bit_floor(bytes);
    FreeSizes& size = sizes[from];
    size.from = from;
    size.to = 2 * from;
    size.bytes += bytes;
    (chunk.kind == ChunkKind::cached ? size.cached : chunk.kind == ChunkKind::fast ? size.fast : size.binned)++;
  }
  std::vector<FreeSizes> list;
  for (const auto& [from, size] : sizes) list.push_back(size);
  return list;
}

std::vector<Chunk> largest_free(const HeapWalk& walk, std::size_t most) {
  std::vector<Chunk> largest;
  for (const Chunk& chunk : walk.chunks) {
    if (!chunk.free()) continue;
    largest.push_back(chunk);
    std::push_heap(largest.begin(), largest.end(), [](const Chunk& a, const Chunk& b) { return a.bytes > b.bytes; });
    if (largest.size() <= most) continue;
    std::pop_heap(largest.begin(), largest.end(), [](const Chunk& a, const Chunk& b) { return a.bytes > b.bytes; });
    largest.pop_back();
  }
  std::sort(largest.begin(), largest.end(), [](const Chunk& a, const Chunk& b) { return a.bytes > b.bytes; });
  return largest;
}

}  // namespace heapspy::heap
