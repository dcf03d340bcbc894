#include "analyzer/trace/live_blocks.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <vector>

namespace heapspy::trace {

namespace {

constexpr std::uint32_t kLeastCapacity = 128;  // one page
// Beyond this a shard grows by a fifth instead of a half: 256 shards of it are 32 MiB.
constexpr std::uint32_t kLargeCapacity = 4096;

// Shares of the capacity: how full a shard may get, and how few live blocks mean that clearing it out is enough.
constexpr std::uint32_t limit_of(std::uint32_t capacity) { return static_cast<std::uint32_t>(capacity * 0.75); }
constexpr std::uint32_t clear_below(std::uint32_t capacity) { return static_cast<std::uint32_t>(capacity * 0.62); }

// Mapped, not taken from the heap: a shard then grows where it stands, without a copy beside it. New slots are zero.
LiveSlot* map_slots(std::uint32_t capacity) {
  void* at = ::mmap(nullptr, capacity * sizeof(LiveSlot), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return static_cast<LiveSlot*>(at);
}

LiveSlot* remap_slots(LiveSlot* slots, std::uint32_t before, std::uint32_t after) {
  void* at = ::mremap(slots, before * sizeof(LiveSlot), after * sizeof(LiveSlot), MREMAP_MAYMOVE);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return static_cast<LiveSlot*>(at);
}

}  // namespace

// The shards begin as neighbours in one mapping, a page each; one that grows leaves it.
LiveBlocks::LiveBlocks() : shards_(new Shard[1 << kShardBits]), nursery_(map_slots(kLeastCapacity << kShardBits)) {
  for (std::size_t i = 0; i < 1 << kShardBits; i++) {
    shards_[i].slots = nursery_ + i * kLeastCapacity;
    shards_[i].capacity = kLeastCapacity;
    shards_[i].limit = limit_of(kLeastCapacity);
  }
}

LiveBlocks::~LiveBlocks() {
  for (const Shard& shard : *this)
    if (shard.capacity > kLeastCapacity) ::munmap(shard.slots, shard.capacity * sizeof(LiveSlot));
  ::munmap(nursery_, (kLeastCapacity << kShardBits) * sizeof(LiveSlot));
}

std::uint64_t LiveBlocks::table_bytes() const {
  std::uint64_t bytes = 0;
  for (const Shard& shard : *this) bytes += shard.capacity * sizeof(LiveSlot);
  return bytes;
}

LiveSlot& LiveBlocks::add(Shard& shard, LiveSlot* free, std::uint64_t address) {
  if (shard.used >= shard.limit) {
    if (shard.live < clear_below(shard.capacity)) clear(shard);
    // Should little have been cleared, the next clearing would come too soon.
    while (shard.used >= clear_below(shard.capacity)) grow(shard);
    free = find(shard, address);
  }
  free->address = address;
  shard.used++;
  return *free;
}

// Takes dead slots out. Each other one moves to the first free slot from its home on; since they are taken in the order
// in which they stand, beginning behind a free one, what is before it in its row has found its place already.
void LiveBlocks::clear(Shard& shard) {
  std::uint32_t first = 0;
  while (shard.slots[first].address) first++;
  shard.used = 0;
  for (std::uint32_t i = 0, at = first; i < shard.capacity; i++) {
    LiveSlot& slot = shard.slots[at];
    at = at + 1 == shard.capacity ? 0 : at + 1;
    if (!slot.address) continue;
    const LiveSlot taken = slot;
    slot = {};
    if (!taken.live && !taken.noted && !taken.kept) continue;
    *find(shard, taken.address) = taken;
    shard.used++;
  }
}

// Takes dead slots out and makes room. Homes move towards the end, in proportion. Taken from the end on, slots mostly find
// their new homes behind all that is still to be taken; the few near the start that do not are put aside.
void LiveBlocks::grow(Shard& shard) {
  const std::uint32_t before = shard.capacity;
  const std::uint32_t after = before + (before < kLargeCapacity ? before / 2 : before / 5);
  if (before == kLeastCapacity) {
    LiveSlot* slots = map_slots(after);
    std::memcpy(slots, shard.slots, before * sizeof(LiveSlot));
    ::madvise(shard.slots, before * sizeof(LiveSlot), MADV_DONTNEED);
    shard.slots = slots;
  } else {
    shard.slots = remap_slots(shard.slots, before, after);
  }
  shard.capacity = after;
  shard.limit = limit_of(after);
  std::vector<LiveSlot> aside;
  for (std::uint32_t i = before; i-- > 0;) {
    if (!shard.slots[i].address) continue;
    const LiveSlot taken = shard.slots[i];
    shard.slots[i] = {};
    if (!taken.live && !taken.noted && !taken.kept) {
      shard.used--;
      continue;
    }
    LiveSlot* place = &home(shard, hash(taken.address));
    if (place < shard.slots + i) {
      aside.push_back(taken);
      continue;
    }
    while (place < shard.slots + after && place->address) place++;
    if (place == shard.slots + after)
      aside.push_back(taken);
    else
      *place = taken;
  }
  for (const LiveSlot& slot : aside) *find(shard, slot.address) = slot;
}

}  // namespace heapspy::trace
