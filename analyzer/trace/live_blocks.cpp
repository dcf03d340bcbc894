#include "analyzer/trace/live_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace heapspy::trace {

namespace {

constexpr std::uint32_t kLeastCapacity = 128;  // one page
// Beyond this a shard grows by a quarter instead of a half: 256 shards of it are 32 MiB.
constexpr std::uint32_t kLargeCapacity = 4096;

// Shares of the capacity: how full a shard may get, and how few live blocks mean that clearing it out is enough.
constexpr std::uint32_t limit_of(std::uint32_t capacity) { return static_cast<std::uint32_t>(capacity * 0.8); }
constexpr std::uint32_t clear_below(std::uint32_t capacity) { return static_cast<std::uint32_t>(capacity * 0.66); }

// Mapped and unmapped, not taken from the heap: arrays that grow step by step would leave it full of holes.
LiveSlot* map_slots(std::uint32_t capacity) {
  void* at = ::mmap(nullptr, capacity * sizeof(LiveSlot), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return static_cast<LiveSlot*>(at);
}

void unmap_slots(LiveSlot* slots, std::uint32_t capacity) {
  if (slots) ::munmap(slots, capacity * sizeof(LiveSlot));
}

}  // namespace

LiveBlocks::LiveBlocks() : shards_(new Shard[1 << kShardBits]) {
  for (int i = 0; i < 1 << kShardBits; i++) rebuild(shards_[static_cast<std::size_t>(i)], kLeastCapacity);
}

LiveBlocks::~LiveBlocks() {
  for (const Shard& shard : *this) unmap_slots(shard.slots, shard.capacity);
}

std::uint64_t LiveBlocks::table_bytes() const {
  std::uint64_t bytes = 0;
  for (const Shard& shard : *this) bytes += shard.capacity * sizeof(LiveSlot);
  return bytes;
}

LiveSlot& LiveBlocks::add(Shard& shard, LiveSlot* free, std::uint64_t address) {
  if (shard.used >= shard.limit) {
    const bool mostly_dead = shard.live < clear_below(shard.capacity);
    const std::uint32_t more = shard.capacity < kLargeCapacity ? shard.capacity / 2 : shard.capacity / 4;
    rebuild(shard, mostly_dead ? shard.capacity : shard.capacity + more);
    free = find(shard, address);
  }
  free->address = address;
  shard.used++;
  return *free;
}

// Moves the live (and noted) slots into new room.
void LiveBlocks::rebuild(Shard& shard, std::uint32_t capacity) {
  Shard rebuilt;
  // Noted slots stay though their blocks are dead: should they be many, they must still leave room.
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < shard.capacity; i++)
    kept += shard.slots[i].address && (shard.slots[i].live || shard.slots[i].noted);
  while (kept >= limit_of(capacity)) capacity += capacity / 2;
  rebuilt.slots = map_slots(capacity);
  rebuilt.capacity = capacity;
  rebuilt.limit = limit_of(capacity);
  rebuilt.live = shard.live;
  for (std::uint32_t i = 0; i < shard.capacity; i++) {
    const LiveSlot& slot = shard.slots[i];
    if (!slot.address || (!slot.live && !slot.noted)) continue;
    *find(rebuilt, slot.address) = slot;
    rebuilt.used++;
  }
  unmap_slots(shard.slots, shard.capacity);
  shard = rebuilt;
}

}  // namespace heapspy::trace
