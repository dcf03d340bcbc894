#include "analyzer/heap/free_lists.h"

#include <fmt/format.h>

namespace heapspy::heap {

void list_bins(const HeapCopy& copy, HeapWalk& walk, ChunkBits& bits) {
  for (std::size_t a = 0; a < copy.arenas.size(); a++) {
    const ArenaCopy& arena = copy.arenas[a];
    for (std::uint64_t bin = 0; bin < kBins; bin++) {
      const std::uint64_t head = arena.bin_address(bin);
      const std::uint8_t mark = bin == 0 ? ChunkBits::kUnsorted : ChunkBits::kBinned;
      std::uint64_t previous = head;
      // Every chunk is marked once, so a list that runs in a circle ends.
      for (std::uint64_t at = arena.bin_first(bin); at != head; at = bits.word(at + 16)) {
        std::uint8_t* chunk = bits.at(at);
        if (!chunk || !(*chunk & ChunkBits::kFree) || *chunk & (ChunkBits::kUnsorted | ChunkBits::kBinned)) {
          walk.bin_faults++;
          walk.trouble(at, fmt::format("bin {} of the arena at {:#x} lists what is no free chunk", bin + 1, arena.address));
          break;
        }
        if (bits.word(at + 24) != previous) {
          walk.bin_faults++;
          walk.trouble(
              at, fmt::format("bin {} of the arena at {:#x}: forward and backward links disagree", bin + 1, arena.address));
        }
        *chunk |= mark;
        walk.listed_in_bins[a]++;
        previous = at;
      }
    }
  }
}

void list_fast_bins(const HeapCopy& copy, HeapWalk& walk, ChunkBits& bits) {
  if (!walk.layout.fast_bins) return;
  for (const ArenaCopy& arena : copy.arenas)
    for (std::uint64_t bin = 0; bin < kFastBins; bin++)
      for (std::uint64_t at = arena.fast_bin(bin); at != 0; at = revealed(walk.layout, at + 16, bits.word(at + 16))) {
        std::uint8_t* chunk = bits.at(at);
        const std::uint64_t bytes = bits.word(at + 8) & kSizeMask;
        if (!chunk || *chunk & (ChunkBits::kFree | ChunkBits::kFast) || bytes != kMinChunkBytes + 16 * bin) {
          walk.fast_faults++;
          walk.trouble(at, fmt::format("fast bin {} of the arena at {:#x} lists what is no chunk of {} bytes", bin,
                                       arena.address, kMinChunkBytes + 16 * bin));
          break;
        }
        *chunk |= ChunkBits::kFast;
      }
}

}  // namespace heapspy::heap
