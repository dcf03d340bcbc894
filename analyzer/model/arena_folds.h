// What the blocks of all arenas would need in fewer of them: arenas are dealt out to N in the order in which they appear, and
// each of the N needs what its blocks needed at their most at once. Holes between blocks are not counted, so it is the least.
// Constant time an event; memory: an entry for each 64 MiB of secondary arenas.
#pragma once
#include <array>
#include <cstdint>
#include <unordered_map>

#include "analyzer/model/heap_facts.h"

namespace heapspy::model {

struct ArenaNeed {
  std::uint32_t arenas = 0;
  std::uint64_t bytes = 0;
};

class ArenaFolds {
 public:
  static constexpr std::array<std::uint32_t, 3> kArenas = {1, 2, 4};

  // Of blocks in heaps; those that are mappings of their own are nobody's.
  void add(std::uint64_t address, std::uint64_t size) { change(address, glibc_chunk_bytes(size)); }
  void remove(std::uint64_t address, std::uint64_t size) { change(address, 0 - glibc_chunk_bytes(size)); }

  std::array<ArenaNeed, kArenas.size()> needs() const {
    std::array<ArenaNeed, kArenas.size()> result;
    std::size_t at = 0;
    for (std::size_t i = 0; i < kArenas.size(); i++) {
      result[i].arenas = kArenas[i];
      for (std::uint32_t n = 0; n < kArenas[i]; n++) result[i].bytes += folds_[at++].most;
    }
    return result;
  }

 private:
  struct Fold {
    std::uint64_t live = 0, most = 0;
  };

  void change(std::uint64_t address, std::uint64_t bytes) {
    const std::uint32_t number = number_of(address);
    std::size_t first = 0;
    for (const std::uint32_t arenas : kArenas) {
      Fold& fold = folds_[first + number % arenas];
      fold.live += bytes;
      // Where events are lost, more may end than began: then nothing lives.
      if (fold.live >> 63) fold.live = 0;
      if (fold.live > fold.most) fold.most = fold.live;
      first += arenas;
    }
  }
  // 0: the main heap, which lies below all mappings.
  std::uint32_t number_of(std::uint64_t address) {
    if ((address >> 44 & 7) != 7) return 0;
    const std::uint64_t region = address / kHeapRegionBytes;
    if (region != last_region_) {
      last_region_ = region;
      last_number_ = numbers_.try_emplace(region, static_cast<std::uint32_t>(numbers_.size()) + 1).first->second;
    }
    return last_number_;
  }

  std::array<Fold, 7> folds_;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
  std::uint64_t last_region_ = 0;
  std::uint32_t last_number_ = 0;
};

}  // namespace heapspy::model
