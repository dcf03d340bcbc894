// How many bytes and blocks lie on each 4 KiB page, kept as events pass: one 64-bit addition per page and event.
//
// A page's counters are one packed word, so adding and taking away a block are exact inverses whatever comes between.
// Blocks of 128 KiB and more are kept in a list of their own and reach the counters only while a state is computed
// (LargeBlocksOnPages), so that an untouched giant costs nothing.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "analyzer/model/heap_facts.h"
#include "analyzer/trace/event.h"

namespace heapspy::model {

inline constexpr std::uint64_t kLargeBlockBytes = 128u << 10;

// One page, unpacked. Bytes are at most kPageBytes each.
struct PageCounts {
  std::uint32_t used = 0;    // of live blocks, with headers and rounding (occupied())
  std::uint32_t live = 0;    // asked for by live blocks
  std::uint32_t cached = 0;  // of freed blocks in thread caches, with headers and rounding
  std::uint32_t blocks = 0;  // live blocks that touch it, each once
  // Used or cached chunks that end so little before this page that the free chunk behind them cannot give it back:
  // malloc_trim keeps the first 48 bytes of a free chunk (malloc/malloc.c, mtrim).
  std::uint32_t guards = 0;
};

class PageWord {
 public:
  static constexpr std::uint64_t kUsed = 1, kLive = 1ull << 14, kCached = 1ull << 28, kBlock = 1ull << 42, kGuard = 1ull << 56;
  static PageCounts unpack(std::uint64_t word);
};

class PageMap {
 public:
  static constexpr unsigned kLeafPages = 16384;  // 64 MiB: a heap of a secondary arena is one leaf
  struct Leaf {
    std::uint64_t base = 0;     // address of its first page
    std::uint64_t entries = 0;  // live and cached blocks that begin on it; at 0 it is given back
    std::array<std::uint64_t, kLeafPages> pages{};
  };

  explicit PageMap(const HeapFacts& facts);
  ~PageMap();

  void add(std::uint64_t address, std::uint64_t size);     // a live block
  void remove(std::uint64_t address, std::uint64_t size);  // and its end
  void cache(std::uint64_t address, std::uint64_t size);   // a live block moves into a thread cache
  // A cached chunk leaves: to be allocated again (add() follows) or given to its arena.
  void uncache(std::uint64_t address, std::uint64_t chunk_bytes);

  // nullptr: nothing lies in the 64 MiB around `address`.
  const Leaf* leaf(std::uint64_t address) const;
  PageCounts page(std::uint64_t address) const;
  std::uint64_t word(std::uint64_t address) const;

  const std::map<std::uint64_t, std::uint64_t>& large() const { return large_; }  // address → bytes asked for
  std::uint64_t live_blocks() const { return live_blocks_; }
  std::uint64_t live_bytes() const { return live_bytes_; }
  std::uint64_t memory_bytes() const;  // of the leaves
  void clear();

 private:
  friend class LargeBlocksOnPages;
  enum class Count { live, cached };
  struct Directory;
  Leaf& make_leaf(std::uint64_t address);
  Leaf* find_leaf(std::uint64_t region) const;
  void drop_leaf(std::uint64_t region);
  void apply(std::uint64_t address, std::uint64_t size, std::uint64_t occupied_bytes, Count, bool subtract);
  void touch(std::uint64_t page_address, std::uint64_t delta);

  static constexpr unsigned kTop = 1024, kDirectory = 2048;  // 128 TiB in directories of 128 GiB
  HeapFacts facts_;
  std::array<std::unique_ptr<Directory>, kTop> top_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Leaf>> beyond_;  // leaves above 2^47: damaged traces, 5-level paging
  mutable std::uint64_t last_region_ = ~0ull;
  mutable Leaf* last_leaf_ = nullptr;
  std::map<std::uint64_t, std::uint64_t> large_;
  std::uint64_t live_blocks_ = 0, live_bytes_ = 0, leaves_ = 0;
};

}  // namespace heapspy::model
