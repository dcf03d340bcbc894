#include "stack_table.h"

#include <sys/mman.h>

#include "recorder.h"
#include "text.h"

namespace heapspy {

using namespace format;

namespace {

uint64_t hash_of(uint32_t parent, uint64_t code, CellKind kind) {
  uint64_t hash = (code ^ static_cast<uint64_t>(parent) * 0xD6E8FEB86659FD93ull) + static_cast<uint64_t>(kind);
  hash *= 0x9E3779B97F4A7C15ull;
  return hash ^ hash >> 32;
}

bool says(const StackCell& cell, uint32_t parent, uint64_t code, CellKind kind) {
  return cell.code == code && cell.parent == parent && cell.kind == kind;
}

constexpr uint32_t kPlacedBits = 32;  // of a hash, from bit 0: where it stands; above: what is kept beside the number

}  // namespace

StackTable::Place StackTable::place_of(uint32_t number) {
  uint32_t i = number - 1;
  if (i < kCells0) return {0, i, kCells0};
  if ((i -= kCells0) < kCells1) return {1, i, kCells1};
  if ((i -= kCells1) < kCells2) return {2, i, kCells2};
  i -= kCells2;
  return {3 + i / kCells3, i % kCells3, kCells3};
}

// nullptr: of no segment, or the memory was wiped by fork.
StackCell* StackTable::cell(uint32_t number) const {
  const Place place = place_of(number);
  char* segment = place.segment < kMostSegments ? segments_[place.segment] : nullptr;
  return segment ? reinterpret_cast<StackCell*>(segment + sizeof(ChunkHeader) + sizeof(StacksHeader)) + place.index : nullptr;
}

void StackTable::begin(char* first_segment) {
  first_.slots = kFirstSlots;
  static_assert(offsetof(StackTable, first_slots_) == offsetof(StackTable, first_) + sizeof(Index));
  segments_[0] = first_segment;
  auto* header = reinterpret_cast<StacksHeader*>(first_segment + sizeof(ChunkHeader));
  header->first = 1;
  header->cells = kCells0;
  begin_mapped_chunk(first_segment, ChunkKind::stacks, kFirstSegmentBytes);
  segments_count_.store(1, std::memory_order_release);
  index_.store(&first_, std::memory_order_release);
}

bool StackTable::add_segment(uint32_t segment, uint32_t first) {
  os::SignalsBlocked blocked;
  Locked locked(lock_);
  if (segments_count_.load(std::memory_order_relaxed) > segment) return true;
  if (segment >= kMostSegments || full_.load(std::memory_order_relaxed)) return false;
  constexpr uint64_t kBytes[] = {kFirstSegmentBytes, 64 << 10, 256 << 10, 1 << 20};
  const uint64_t bytes = kBytes[segment < 3 ? segment : 3];
  char* at = recorder->file.add_segment(bytes, false);
  if (!at) return full_.store(true, std::memory_order_relaxed), false;
  auto* header = reinterpret_cast<StacksHeader*>(at + sizeof(ChunkHeader));
  header->first = first;
  header->cells = cells_in(bytes);
  begin_mapped_chunk(at, ChunkKind::stacks, bytes);
  segments_[segment] = at;
  segments_count_.store(segment + 1, std::memory_order_release);
  return true;
}

// Cells in a row, of one segment; what is left of the one before stays empty. 0: no room.
uint32_t StackTable::claim(uint32_t cells) {
  for (uint32_t seen = claimed_.load(std::memory_order_relaxed);;) {
    if (full_.load(std::memory_order_relaxed)) return 0;
    uint32_t first = seen + 1;
    Place place = place_of(first);
    if (place.index + cells > place.cells) {
      first += place.cells - place.index;
      place = place_of(first);
    }
    if (first + cells - 1 > kMostCells) return full_.store(true, std::memory_order_relaxed), 0;
    if (segments_count_.load(std::memory_order_acquire) <= place.segment && !add_segment(place.segment, first)) return 0;
    if (!claimed_.compare_exchange_weak(seen, first + cells - 1, std::memory_order_relaxed)) continue;
    std::atomic_ref<uint64_t> said(recorder->file.header().stack_cells);
    for (uint64_t was = said.load(std::memory_order_relaxed); was < first + cells - 1;)
      if (said.compare_exchange_weak(was, first + cells - 1, std::memory_order_relaxed)) break;
    return first;
  }
}

bool StackTable::put(Index& index, uint64_t hash, uint32_t number) {
  const uint32_t kept = static_cast<uint32_t>(hash >> kPlacedBits) << kNumberBits | number;
  for (uint32_t probe = 0; probe < kMostProbes; probe++) {
    uint32_t empty = 0;
    if (index.slot(hash + probe).compare_exchange_strong(empty, kept, std::memory_order_release))
      return index.used.fetch_add(1, std::memory_order_relaxed), true;
  }
  return false;
}

// Frames that others add to the old index meanwhile are missing in the new one: they will be written a second time.
void StackTable::grow(Index* seen) {
  os::SignalsBlocked blocked;
  if (!lock_.try_lock()) return;
  if (index_.load(std::memory_order_relaxed) == seen && !full_.load(std::memory_order_relaxed)) {
    const uint32_t slots = seen->slots * 4;
    const size_t bytes = align_up(sizeof(Index) + slots * sizeof(uint32_t), 4096);
    auto* larger = static_cast<Index*>(os::map_anonymous(bytes));
    if (larger && os::failed(os::advise(larger, bytes, MADV_WIPEONFORK))) os::unmap(larger, bytes), larger = nullptr;
    if (larger) {
      larger->slots = slots;
      const uint32_t last = claimed_.load(std::memory_order_acquire);
      for (uint32_t number = 1; number <= last; number++) {
        const StackCell* each = cell(number);
        if (!each) continue;
        const auto kind = std::atomic_ref<CellKind>(const_cast<StackCell*>(each)->kind).load(std::memory_order_acquire);
        if (kind == CellKind::module)
          number += static_cast<uint32_t>(each->code >> 32);
        else if (kind != CellKind::none)
          put(*larger, hash_of(each->parent, each->code, kind), number);
      }
      more_index_bytes_ += bytes;
      index_.store(larger, std::memory_order_release);
    } else {
      full_.store(true, std::memory_order_relaxed);
    }
  }
  lock_.unlock();
}

uint32_t StackTable::intern(uint32_t parent, uint64_t code, CellKind kind) {
  Index* index = index_.load(std::memory_order_acquire);
  if (HEAPSPY_UNLIKELY(!index || !index->slots)) return 0;
  const uint64_t hash = hash_of(parent, code, kind);
  const auto tag = static_cast<uint32_t>(hash >> kPlacedBits) << kNumberBits;
  uint32_t ours = 0;
  for (uint32_t probe = 0; probe < kMostProbes; probe++) {
    auto& slot = index->slot(hash + probe);
    uint32_t there = slot.load(std::memory_order_acquire);
    if (there == 0) {
      if (!ours) {
        if (!(ours = claim(1))) return 0;
        StackCell* fresh = cell(ours);
        if (!fresh) return 0;
        fresh->code = code;
        fresh->parent = parent;
        std::atomic_ref<CellKind>(fresh->kind).store(kind, std::memory_order_release);
      }
      if (slot.compare_exchange_strong(there, tag | ours, std::memory_order_release, std::memory_order_acquire)) {
        if (HEAPSPY_UNLIKELY(index->used.fetch_add(1, std::memory_order_relaxed) * 8ull > index->slots * 5ull)) grow(index);
        return ours;
      }
    }
    if ((there ^ tag) >> kNumberBits) continue;
    const uint32_t number = there & ((1u << kNumberBits) - 1);
    const StackCell* found = cell(number);
    if (found && says(*found, parent, code, kind)) return number;
  }
  return ours;
}

bool StackTable::add_module(uint32_t number, const ModuleRecord& module, const char* path) {
  const auto path_bytes = static_cast<uint32_t>(length_of(path));
  const auto more = static_cast<uint32_t>((sizeof module + align_up(path_bytes, sizeof(StackCell))) / sizeof(StackCell));
  const uint32_t first = claim(1 + more);
  StackCell* head = first ? cell(first) : nullptr;
  if (!head) return false;
  ModuleRecord record = module;
  record.path_bytes = path_bytes;
  __builtin_memcpy(head + 1, &record, sizeof record);
  __builtin_memcpy(reinterpret_cast<char*>(head + 1) + sizeof record, path, path_bytes);
  head->code = static_cast<uint64_t>(more) << 32 | number;
  std::atomic_ref<CellKind>(head->kind).store(CellKind::module, std::memory_order_release);
  return true;
}

void StackTable::count_lost() {
  std::atomic_ref<uint64_t>(recorder->file.header().stacks_lost).fetch_add(1, std::memory_order_relaxed);
}

}  // namespace heapspy
