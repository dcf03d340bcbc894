#include "analyzer/heap/trim_prediction.h"

#include <algorithm>

namespace heapspy::heap {
namespace {

constexpr std::uint64_t kFreeChunkHeader = 48;  // sizeof (struct malloc_chunk): links that a trim keeps
constexpr std::uint64_t kTopKept = 33;          // MINSIZE + 1

TrimRange of_free_chunk(std::uint64_t start, std::uint64_t end, std::uint64_t page) {
  return {0, (start + kFreeChunkHeader + page - 1) & ~(page - 1), end & ~(page - 1)};
}

TrimRange of_main_top(const HeapCopy& copy, const HeapRegion& region, std::uint64_t start, std::uint64_t end) {
  const std::uint64_t huge = copy.parameters ? copy.parameters->huge_trim_bytes : 0;
  const std::uint64_t unit = huge ? huge : copy.page_bytes;
  const std::uint64_t end_page = (end + copy.page_bytes - 1) & ~(copy.page_bytes - 1);
  if (!region.of_brk || end_page != region.end || end - start <= kTopKept) return {};
  const std::uint64_t given = (end - start - kTopKept) & ~(unit - 1);
  return {0, (end - given + copy.page_bytes - 1) & ~(copy.page_bytes - 1), end_page};
}

}  // namespace

std::vector<TrimRange> predict_trim(const HeapCopy& copy, const HeapWalk& walk, const std::vector<bool>* gone) {
  const auto free = [&](std::size_t i) { return walk.chunks[i].free() || (gone != nullptr && (*gone)[i]); };
  std::vector<TrimRange> ranges;
  for (std::size_t r = 0; r < copy.regions.size(); r++) {
    const RegionWalk& region = walk.regions[r];
    if (!region.tiled) continue;
    for (std::size_t i = region.first_chunk; i < region.end_chunk;) {
      if (!free(i)) {
        i++;
        continue;
      }
      const std::uint64_t start = walk.chunks[i].address;
      std::uint64_t end = start;
      bool top = false;
      for (; i < region.end_chunk && free(i) && walk.chunks[i].address == end; i++) {
        end = walk.chunks[i].end();
        top = walk.chunks[i].kind == ChunkKind::top;
      }
      if (top && copy.regions[r].secondary) continue;
      TrimRange range = top ? of_main_top(copy, copy.regions[r], start, end) : of_free_chunk(start, end, copy.page_bytes);
      range.region = r;
      if (range.start < range.end) ranges.push_back(range);
    }
  }
  return ranges;
}

std::uint64_t resident_bytes(const HeapCopy& copy, const std::vector<TrimRange>& ranges) {
  std::uint64_t bytes = 0;
  for (const TrimRange& range : ranges) {
    const CopiedRange& memory = copy.regions[range.region].memory;
    if (!memory.residency_known()) continue;
    for (std::uint64_t at = range.start; at < std::min(range.end, memory.end()); at += memory.page_bytes())
      if (memory.state((at - memory.start()) / memory.page_bytes()) == process::PageState::resident)
        bytes += memory.page_bytes();
  }
  return bytes;
}

}  // namespace heapspy::heap
