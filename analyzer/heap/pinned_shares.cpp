#include "analyzer/heap/pinned_shares.h"

#include <algorithm>

namespace heapspy::heap {
namespace {

// Calls each(page) for the pages with free bytes on which a block in use has bytes (as in heap_account.cpp: use_chunk).
template <typename Each>
void for_pages_of(const Chunk& chunk, const CopiedRange& memory, const RegionAccount& account, Each each) {
  const bool foreign = chunk.kind == ChunkKind::foreign;
  if (chunk.kind != ChunkKind::in_use && !foreign) return;
  const auto page_of = [&](std::uint64_t address) { return (address - memory.start()) / memory.page_bytes(); };
  const std::uint64_t end = std::min(chunk.end() + (foreign ? 0 : 8), memory.end());
  for (std::size_t page = page_of(chunk.address + (foreign ? 0 : 8)); page <= page_of(end - 1); page++)
    if (account.pages[page] != PageUse::absent && account.used[page] < memory.page_bytes()) each(page);
}

// Bytes that do not divide go to the first ones.
void share_pinned(const CopiedRange& memory, const HeapWalk& walk, const RegionWalk& walked, RegionAccount& account) {
  struct Share {
    std::uint32_t each = 0, rest = 0;
  };
  std::vector<Share> shares(memory.pages());
  for (std::size_t i = walked.first_chunk; i < walked.end_chunk; i++)
    for_pages_of(walk.chunks[i], memory, account, [&](std::size_t page) { shares[page].each++; });
  for (std::size_t page = 0; page < shares.size(); page++) {
    if (shares[page].each == 0) continue;
    const std::uint32_t free = static_cast<std::uint32_t>(memory.page_bytes()) - account.used[page], blocks = shares[page].each;
    shares[page] = {free / blocks, free % blocks};
  }
  account.pinned_by_chunk.resize(walked.end_chunk - walked.first_chunk);
  for (std::size_t i = walked.first_chunk; i < walked.end_chunk; i++) {
    std::uint32_t& pinned = account.pinned_by_chunk[i - walked.first_chunk];
    for_pages_of(walk.chunks[i], memory, account, [&](std::size_t page) {
      Share& share = shares[page];
      pinned += share.each;
      if (share.rest == 0) return;
      share.rest--;
      pinned++;
    });
  }
}

}  // namespace

void share_pinned(const HeapCopy& copy, const HeapWalk& walk, HeapAccount& account) {
  for (std::size_t r = 0; r < copy.regions.size(); r++)
    if (account.regions[r].resident) share_pinned(copy.regions[r].memory, walk, walk.regions[r], account.regions[r]);
}

}  // namespace heapspy::heap
