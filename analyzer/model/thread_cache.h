// Which freed blocks sit in a thread cache of glibc (tcache, since 2.26): to the allocator they are in use, so their
// pages cannot be trimmed.
//
// A free of a small block goes into the cache of the thread that frees, unless its bin is full. An allocation is not
// predicted but recognised: whoever gets an address that sits in a cache took it from there. So a wrong guess (blocks
// that glibc itself moves into a cache from a bin are not seen) corrects itself at the block's next use and errs by at
// most one cache. A thread's end empties its cache.
// O(1) per event. Memory: 32 bytes a cached block, 0.5 KiB a living thread.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "analyzer/model/heap_facts.h"
#include "analyzer/model/page_map.h"
#include "analyzer/model/thread_table.h"
#include "analyzer/trace/event.h"

namespace heapspy::model {

class ThreadCache {
 public:
  ThreadCache(const HeapFacts& facts, PageMap& pages);

  // The block at `address` was freed by `by`. True: it is cached now, the page map too says so; false: it went back to
  // its arena, which is the caller's to say.
  bool put(trace::ThreadId by, std::uint64_t address, std::uint64_t size);
  // `address` was allocated: takes it out of whatever cache it sits in. True if it was in one.
  bool take(std::uint64_t address);
  void end_thread(trace::ThreadId);

  std::uint64_t blocks() const { return blocks_; }
  std::uint64_t bytes() const { return bytes_; }  // whole chunks
  bool holds(std::uint64_t address) const { return find(address) != kNone; }
  void restore_pages();  // puts every cached chunk on a page map that was cleared

 private:
  static constexpr unsigned kBinCount = 64;  // chunks of 32, 48, … 1040 bytes
  static constexpr std::uint32_t kNone = ~0u;
  struct Node {
    std::uint64_t address = 0;  // 0: unused
    std::uint32_t next = kNone, previous = kNone;
    std::uint32_t thread = 0;
    std::uint32_t bin = 0;
  };
  struct Bins {
    std::array<std::uint32_t, kBinCount> newest;
    std::array<std::uint16_t, kBinCount> count{};
    Bins() { newest.fill(kNone); }
  };
  static std::uint64_t chunk_bytes(std::uint32_t bin) { return 32 + 16ull * bin; }
  std::size_t slot(std::uint64_t address) const;
  std::uint32_t find(std::uint64_t address) const;
  void insert(std::uint32_t node);
  void erase(std::uint64_t address);
  void unlink(std::uint32_t node);
  void grow();

  HeapFacts facts_;
  PageMap& pages_;
  ThreadTable<std::unique_ptr<Bins>> threads_;  // null: none
  ThreadTable<std::uint8_t> ended_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> unused_;
  std::vector<std::uint32_t> table_;  // open addressing by address → node
  std::uint64_t blocks_ = 0, bytes_ = 0;
};

}  // namespace heapspy::model
