// The table of live blocks by address: 32 bytes a slot, open addressing.
//
// Memory follows the live blocks: the table is cut into shards, each grows by itself and where it stands, by a fifth once
// it is large. With 10 million live blocks it takes 43 to 62 bytes a block.
//
// A slot whose block has ended stays until its shard needs room: allocators hand the same addresses out again and again,
// so most allocations find their slot, and in a forked process the slot tells that the address was allocated in it.
//
// One thread. Slots move when a slot is added: no pointer to one outlives the next at().
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "analyzer/trace/event.h"

namespace heapspy::trace {

struct LiveSlot {
  std::uint64_t address;  // 0: free
  std::uint64_t size : 58;
  std::uint64_t window : 6;  // the allocation was not later than 2^window ticks after `born`
  std::uint64_t born : 55;   // a stamp has no more bits
  std::uint64_t origin : 3;
  std::uint64_t live : 1;
  std::uint64_t noted : 1;   // the timeline keeps notes on this address: the slot must stay
  std::uint64_t lived : 1;   // a block was allocated here, as far as the slot remembers
  std::uint64_t mended : 1;  // a rule of block_lives.h was needed here
  // The block is the parent's (inherited.h); `born` says how long it had lived at tick 0.
  std::uint64_t inherited : 1;
  std::uint64_t kept : 1;  // one was: the slot must stay, or its end would be forgotten
  std::uint32_t thread;
  std::uint32_t site;

  Tick latest_birth() const { return inherited ? 0 : born + (Tick{1} << window); }
  Block block() const {
    const Tick age = born;
    return {address, size,           inherited ? 0 : age, ThreadId{thread}, SiteId{site}, static_cast<Origin>(origin),
            true,    inherited != 0, inherited ? age : 0};
  }
};
static_assert(sizeof(LiveSlot) == 32);

class LiveBlocks {
 public:
  static constexpr std::uint64_t kMostBytes = (1ull << 58) - 1;  // of a block; more is taken for this

  LiveBlocks();
  ~LiveBlocks();
  LiveBlocks(const LiveBlocks&) = delete;
  LiveBlocks& operator=(const LiveBlocks&) = delete;

  // The slot of `address` (not 0), made if there is none.
  LiveSlot& at(std::uint64_t address) {
    Shard& shard = shard_of(hash(address));
    LiveSlot* slot = find(shard, address);
    return slot->address == address ? *slot : add(shard, slot, address);
  }
  // nullptr where the address has no slot.
  LiveSlot* find(std::uint64_t address) {
    LiveSlot* slot = find(shard_of(hash(address)), address);
    return slot->address == address ? slot : nullptr;
  }
  const LiveSlot* find(std::uint64_t address) const { return const_cast<LiveBlocks*>(this)->find(address); }
  void prefetch(std::uint64_t address) const {
    const std::uint64_t h = hash(address);
    __builtin_prefetch(&home(shards_[h >> kShardShift], h), 1);
    asm volatile("");  // GCC takes a function that only prefetches for one without effect, and drops the calls
  }

  // `latest`: the end of the window of the allocation.
  void begin_life(LiveSlot& slot, const Block& block, Tick latest) {
    live_ += !slot.live;
    shard_of(hash(slot.address)).live += !slot.live;
    slot.live = slot.lived = 1;
    slot.size = std::min(block.size, kMostBytes);
    slot.window = static_cast<std::uint64_t>(std::bit_width(latest > block.born ? latest - block.born : 0)) & 63;
    slot.born = block.inherited ? block.lived_before : block.born;
    slot.inherited = block.inherited;
    slot.kept |= slot.inherited;
    slot.origin = static_cast<std::uint64_t>(block.origin) & 7;
    slot.thread = index(block.thread);
    slot.site = index(block.site);
  }
  void end_life(LiveSlot& slot) {
    slot.live = 0;
    live_--;
    shard_of(hash(slot.address)).live--;
  }

  std::uint64_t live() const { return live_; }
  std::uint64_t table_bytes() const;

  template <typename Visit>
  void for_each(Visit visit) const {
    for (const Shard& shard : *this)
      for (std::size_t i = 0; i < shard.capacity; i++)
        if (shard.slots[i].address && shard.slots[i].live && !shard.slots[i].inherited) visit(shard.slots[i].block());
  }

 private:
  struct Shard {
    LiveSlot* slots = nullptr;
    std::uint32_t capacity = 0;
    std::uint32_t used = 0;  // slots with an address
    std::uint32_t live = 0;
    std::uint32_t limit = 0;  // of `used`
  };
  static constexpr int kShardBits = 8;
  static constexpr int kShardShift = 64 - kShardBits;

  static std::uint64_t hash(std::uint64_t address) {
    address = (address ^ address >> 32) * 0x9E3779B97F4A7C15ull;
    return address ^ address >> 29;
  }
  Shard& shard_of(std::uint64_t h) { return shards_[h >> kShardShift]; }
  // The bits below those that chose the shard, scaled to its capacity.
  static LiveSlot& home(const Shard& shard, std::uint64_t h) {
    return shard.slots[(h << kShardBits >> 32) * shard.capacity >> 32];
  }
  // The slot of `address`, or the free one where it would stand. A shard is never full.
  static LiveSlot* find(const Shard& shard, std::uint64_t address) {
    LiveSlot* slot = &home(shard, hash(address));
    while (slot->address != address && slot->address)
      if (++slot == shard.slots + shard.capacity) slot = shard.slots;
    return slot;
  }
  LiveSlot& add(Shard&, LiveSlot* free, std::uint64_t address);
  static void clear(Shard&);
  static void grow(Shard&);
  const Shard* begin() const { return shards_.get(); }
  const Shard* end() const { return shards_.get() + (1 << kShardBits); }

  std::unique_ptr<Shard[]> shards_;
  LiveSlot* nursery_;
  std::uint64_t live_ = 0;
};

}  // namespace heapspy::trace
