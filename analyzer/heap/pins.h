// Which blocks hold pinned bytes: a page's free bytes that no trim returns, because a block in use is on it too. They are
// charged to the blocks of the page in equal parts.
#pragma once
#include <cstdint>
#include <vector>

#include "analyzer/heap/taken_apart.h"

namespace heapspy::heap {

struct PinsOfSize {
  std::uint64_t from = 0, to = 0;  // of the chunk, header and rounding included
  std::uint64_t blocks = 0, bytes = 0, pinned_bytes = 0;
  // What malloc_trim would return more, were these blocks freed: predicted as any trim is.
  std::uint64_t returned_without_bytes = 0;
};

// Of chunks in use, by powers of two; those that pin most first, at most `most`.
std::vector<PinsOfSize> pins_by_size(const TakenApart&, std::size_t most);

// What malloc_trim would return more, were the chunks that are `gone` (by index into walk.chunks) freed.
std::uint64_t returned_without(const TakenApart&, const std::vector<bool>& gone);

// Calls each(index into walk.chunks, bytes pinned) for every chunk in use of heaps whose residency is known.
template <typename Each>
void for_each_pin(const TakenApart& apart, Each each) {
  for (std::size_t r = 0; r < apart.account.regions.size(); r++) {
    const std::vector<std::uint32_t>& pinned = apart.account.regions[r].pinned_by_chunk;
    const std::size_t first = apart.walk.regions[r].first_chunk;
    for (std::size_t i = 0; i < pinned.size(); i++)
      if (apart.walk.chunks[first + i].kind == ChunkKind::in_use) each(first + i, pinned[i]);
  }
}

}  // namespace heapspy::heap
