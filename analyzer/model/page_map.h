// How many bytes and blocks lie on each 4 KiB page, kept as events pass: one 64-bit addition per page and event.
//
// A page's counters are one packed word, so adding a block and taking it away are exact inverses whatever comes between.
// Blocks of 128 KiB and more are kept in a list of their own and reach the counters only while a state is computed
// (LargeBlocksOnPages), and only where pages are resident: an untouched giant costs nothing.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "analyzer/model/heap_facts.h"
#include "analyzer/trace/event.h"

namespace heapspy::model {

class Residency;

inline constexpr std::uint64_t kLargeBlockBytes = 128u << 10;

// One page, unpacked. Bytes are at most kPageBytes each.
struct PageCounts {
  std::uint32_t used = 0;    // of live blocks, with headers and rounding (occupied())
  std::uint32_t live = 0;    // asked for by live blocks
  std::uint32_t cached = 0;  // of freed blocks in thread caches, with headers and rounding
  std::uint32_t blocks = 0;  // live blocks that touch it, each once
  // Live or cached chunks that end so little before this page that a free chunk behind them could not give it back:
  // malloc_trim keeps the first 48 bytes of a free chunk (malloc/malloc.c, mtrim).
  std::uint32_t guards = 0;

  bool held() const { return blocks || cached || guards; }
};

// A page, packed: 14 bits each for used, live, cached and blocks, 8 bits for guards, from the lowest.
inline constexpr std::uint64_t kUsedUnit = 1, kLiveUnit = 1ull << 14, kCachedUnit = 1ull << 28, kBlockUnit = 1ull << 42,
                               kGuardUnit = 1ull << 56;

inline PageCounts unpack(std::uint64_t word) {
  const auto field = [word](unsigned shift) { return static_cast<std::uint32_t>(word >> shift & 0x3FFF); };
  const auto bytes = [](std::uint32_t value, std::uint32_t most) { return value < most ? value : most; };
  PageCounts page;
  page.used = bytes(field(0), kPageBytes);
  page.live = bytes(field(14), page.used);
  page.cached = bytes(field(28), kPageBytes - page.used);
  page.blocks = field(42);
  page.guards = static_cast<std::uint32_t>(word >> 56);
  return page;
}

class PageMap {
 public:
  static constexpr std::uint32_t kLeafPages = 16384;  // 64 MiB: a heap of a secondary arena is one leaf
  struct Leaf {
    std::uint64_t touches = 0;  // counted once per block and page; at 0 all words are 0
    std::array<std::uint64_t, kLeafPages> words{};
    // One bit per page, where any is set: the last block on it was a large one of a heap, and ended. Not kept for ever: a leaf
    // on which nothing lies may be dropped.
    std::unique_ptr<std::array<std::uint64_t, kLeafPages / 64>> after_large;
  };

  explicit PageMap(const HeapFacts&);
  ~PageMap();
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  void add(std::uint64_t address, std::uint64_t size);     // a live block
  void remove(std::uint64_t address, std::uint64_t size);  // its end
  void cache(std::uint64_t address, std::uint64_t size);   // instead: it moved into a thread cache
  // A cached chunk leaves its cache: to be allocated again (add() follows), or given to its arena.
  void uncache(std::uint64_t address, std::uint64_t chunk_bytes);
  // A large block of a heap ended: its whole pages may be free, and are so because no mapping of its own held it.
  void ended_in_heap(std::uint64_t address, std::uint64_t size);
  bool after_large(std::uint64_t address) const {
    const Leaf* found = leaf(address);
    if (!found || !found->after_large) return false;
    const std::uint64_t page = address / kPageBytes % kLeafPages;
    return ((*found->after_large)[page / 64] >> (page % 64) & 1) != 0;
  }
  void clear();

  // The packed words of the 64 MiB around `address`, nullptr if nothing lies there.
  const Leaf* leaf(std::uint64_t address) const { return find(address / kLeafBytes); }
  std::uint64_t word(std::uint64_t address) const {
    const Leaf* found = leaf(address);
    return found ? found->words[address / kPageBytes % kLeafPages] : 0;
  }
  PageCounts page(std::uint64_t address) const { return unpack(word(address)); }

  const std::map<std::uint64_t, std::uint64_t>& large() const { return large_; }  // address → bytes asked for
  std::uint64_t live_blocks() const { return live_blocks_; }
  std::uint64_t live_bytes() const { return live_bytes_; }
  std::uint64_t memory_bytes() const { return leaves_ * sizeof(Leaf); }

  static constexpr std::uint64_t kLeafBytes = kLeafPages * kPageBytes;

 private:
  friend class LargeBlocksOnPages;
  static constexpr std::uint64_t kTop = 1024, kDirectory = 2048;  // 128 TiB in directories of 128 GiB
  static constexpr std::uint64_t kIdleLeaves = 64;                // kept for reuse
  struct Directory {
    std::array<std::unique_ptr<Leaf>, kDirectory> leaves;
  };

  Leaf* find(std::uint64_t region) const;
  Leaf& make(std::uint64_t region);
  void sweep();
  void touch(std::uint64_t page_number, std::uint64_t delta);
  void untouch(std::uint64_t page_number, std::uint64_t delta);
  template <class Visit>
  static void for_each_page(Span occupied, Visit visit);

  HeapFacts facts_;
  std::array<std::unique_ptr<Directory>, kTop> top_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Leaf>> beyond_;  // above 2^47: damaged traces, 5-level paging
  mutable std::uint64_t last_region_ = ~0ull;
  mutable Leaf* last_leaf_ = nullptr;
  std::map<std::uint64_t, std::uint64_t> large_;
  std::uint64_t live_blocks_ = 0, live_bytes_ = 0, leaves_ = 0, idle_ = 0;
};

// Puts the resident pages of all large blocks on the map while it lives.
class LargeBlocksOnPages {
 public:
  LargeBlocksOnPages(PageMap&, const Residency&);
  ~LargeBlocksOnPages();
  LargeBlocksOnPages(const LargeBlocksOnPages&) = delete;
  LargeBlocksOnPages& operator=(const LargeBlocksOnPages&) = delete;

 private:
  void put(bool take_away);
  PageMap& pages_;
  const Residency& residency_;
};

}  // namespace heapspy::model
