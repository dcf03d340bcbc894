#include "analyzer/heap/chunk_bits.h"

#include <algorithm>

namespace heapspy::heap {
namespace {

constexpr unsigned kUnitShift = 11;

std::uint64_t first_of(const HeapWalk& walk, std::size_t region) {
  return walk.regions[region].end_chunk > walk.regions[region].first_chunk
             ? walk.chunks[walk.regions[region].first_chunk].address
             : 0;
}

}  // namespace

ChunkBits::ChunkBits(const HeapCopy& copy, const HeapWalk& walk)
    : copy_(copy), walk_(walk), bits_(walk.chunks.size()), firsts_(copy.regions.size()) {
  for (std::size_t r = 0; r < firsts_.size(); r++) {
    const RegionWalk& region = walk.regions[r];
    if (region.end_chunk == region.first_chunk) continue;
    const std::uint64_t start = first_of(walk, r);
    std::vector<std::size_t>& firsts = firsts_[r];
    firsts.resize(((walk.chunks[region.end_chunk - 1].address - start) >> kUnitShift) + 2, region.end_chunk);
    std::size_t filled = 0;
    for (std::size_t i = region.first_chunk; i < region.end_chunk; i++) {
      const Chunk& chunk = walk.chunks[i];
      for (const std::size_t unit = (chunk.address - start) >> kUnitShift; filled <= unit; filled++) firsts[filled] = i;
      if (chunk.binned()) bits_[i] = kFree;
    }
  }
}

std::size_t ChunkBits::region_of(std::uint64_t address) const {
  if (last_ < copy_.regions.size() && address >= copy_.regions[last_].start && address < copy_.regions[last_].end) return last_;
  const std::size_t found = region_at(copy_, address);
  if (found < copy_.regions.size()) last_ = found;
  return found;
}

std::uint8_t* ChunkBits::at(std::uint64_t address) {
  if (address % kChunkAlignment) return nullptr;
  const std::size_t region = region_of(address);
  if (region == copy_.regions.size()) return nullptr;
  const std::vector<std::size_t>& firsts = firsts_[region];
  const std::uint64_t start = first_of(walk_, region), unit = (address - start) >> kUnitShift;
  if (address < start || unit + 1 >= firsts.size()) return nullptr;
  const auto begin = walk_.chunks.begin();
  const auto found =
      std::lower_bound(begin + static_cast<std::ptrdiff_t>(firsts[unit]), begin + static_cast<std::ptrdiff_t>(firsts[unit + 1]),
                       address, [](const Chunk& chunk, std::uint64_t wanted) { return chunk.address < wanted; });
  if (found == begin + static_cast<std::ptrdiff_t>(firsts[unit + 1]) || found->address != address) return nullptr;
  return &bits_[static_cast<std::size_t>(found - begin)];
}

std::uint64_t ChunkBits::word(std::uint64_t address) const {
  if (address % 8) return 0;
  const std::size_t region = region_of(address);
  if (region == copy_.regions.size() || !copy_.regions[region].memory.contains(address)) return 0;
  return copy_.regions[region].memory.word(address);
}

void ChunkBits::settle_kinds(HeapWalk& walk) const {
  for (std::size_t i = 0; i < bits_.size(); i++) {
    Chunk& chunk = walk.chunks[i];
    const std::uint8_t bits = bits_[i];
    if (chunk.kind == ChunkKind::in_use) {
      if (bits & kCacheTable)
        chunk.kind = ChunkKind::cache_table;
      else if (bits & kCached)
        chunk.kind = ChunkKind::cached;
      else if (bits & kFast)
        chunk.kind = ChunkKind::fast;
    } else if (chunk.binned() && bits & kUnsorted) {
      chunk.kind = ChunkKind::unsorted;
    }
  }
}

}  // namespace heapspy::heap
