#include "analyzer/heap/chunk_bits.h"

namespace heapspy::heap {

ChunkBits::ChunkBits(const HeapCopy& copy, const HeapWalk& walk) : copy_(copy), bits_(copy.regions.size()) {
  for (std::size_t r = 0; r < bits_.size(); r++) {
    const RegionWalk& region = walk.regions[r];
    const std::uint64_t start = copy.regions[r].start & ~(kChunkAlignment - 1);
    const std::uint64_t end = region.end_chunk > region.first_chunk ? walk.chunks[region.end_chunk - 1].address + 1 : start;
    bits_[r].resize((end - start + kChunkAlignment - 1) / kChunkAlignment);
    for (std::size_t i = region.first_chunk; i < region.end_chunk; i++)
      bits_[r][(walk.chunks[i].address - start) / kChunkAlignment] =
          static_cast<std::uint8_t>(kStart | (walk.chunks[i].binned() ? kFree : 0));
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
  const std::uint64_t unit = (address - (copy_.regions[region].start & ~(kChunkAlignment - 1))) / kChunkAlignment;
  if (unit >= bits_[region].size() || !(bits_[region][unit] & kStart)) return nullptr;
  return &bits_[region][unit];
}

std::uint64_t ChunkBits::word(std::uint64_t address) const {
  if (address % 8) return 0;
  const std::size_t region = region_of(address);
  if (region == copy_.regions.size() || !copy_.regions[region].memory.contains(address)) return 0;
  return copy_.regions[region].memory.word(address);
}

void ChunkBits::settle_kinds(HeapWalk& walk) const {
  for (std::size_t r = 0; r < bits_.size(); r++) {
    const std::uint64_t start = copy_.regions[r].start & ~(kChunkAlignment - 1);
    for (std::size_t i = walk.regions[r].first_chunk; i < walk.regions[r].end_chunk; i++) {
      Chunk& chunk = walk.chunks[i];
      const std::uint8_t bits = bits_[r][(chunk.address - start) / kChunkAlignment];
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
}

}  // namespace heapspy::heap
