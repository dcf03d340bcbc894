#include "stack_table.h"

#include <sys/mman.h>

#include "recorder.h"
#include "text.h"

namespace heapspy {

using namespace format;

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
  first_.lines = kFirstLines;
  static_assert(offsetof(StackTable, first_lines_) == offsetof(StackTable, first_) + sizeof(Index));
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
  char* at = recorder->file.add_segment(bytes, segment >= 2);
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

bool StackTable::put(Index& index, uint64_t value) {
  const uint64_t key = value >> kNumberBits << kNumberBits;
  for (uint32_t tried = 0; tried < kMostLines; tried++)
    for (auto& slot : index.line(key, tried).slot) {
      uint64_t empty = 0;
      if (slot.load(std::memory_order_relaxed) == 0 && slot.compare_exchange_strong(empty, value, std::memory_order_release))
        return index.used.fetch_add(1, std::memory_order_relaxed), true;
    }
  return false;
}

// Frames that others add to the old index meanwhile are missing in the new one: they will be written a second time.
void StackTable::grow(Index* seen) {
  os::SignalsBlocked blocked;
  if (!lock_.try_lock()) return;
  if (index_.load(std::memory_order_relaxed) == seen && !full_.load(std::memory_order_relaxed)) {
    const uint32_t lines = seen->lines * 2;
    const size_t bytes = align_up(sizeof(Index) + lines * sizeof(Line), 4096);
    auto* larger = static_cast<Index*>(os::map_anonymous(bytes));
    if (larger && os::failed(os::advise(larger, bytes, MADV_WIPEONFORK))) os::unmap(larger, bytes), larger = nullptr;
    if (larger) {
      larger->lines = lines;
      const auto* all = reinterpret_cast<const Line*>(seen + 1);
      for (uint32_t i = 0; i < seen->lines; i++)
        for (const auto& slot : all[i].slot)
          if (const uint64_t value = slot.load(std::memory_order_acquire)) put(*larger, value);
      more_index_bytes_ += bytes;
      index_.store(larger, std::memory_order_release);
    } else {
      full_.store(true, std::memory_order_relaxed);
    }
  }
  lock_.unlock();
}

uint32_t StackTable::intern(uint32_t parent, uint64_t code, CellKind kind, uint32_t id) {
  Index* index = index_.load(std::memory_order_acquire);
  if (HEAPSPY_UNLIKELY(!index)) return 0;
  uint64_t key = key_of(parent, id);
  if (!id) key |= kWithoutId | ((code + static_cast<uint64_t>(kind)) * 0x9E3779B97F4A7C15ull >> 44) << 44;
  for (uint32_t tried = 0; tried < kMostLines; tried++) {
    for (const auto& slot : index->line(key, tried).slot) {
      const uint64_t there = slot.load(std::memory_order_acquire);
      if (!there) return add_cell(*index, key, parent, code, kind);
      if ((there ^ key) >> kNumberBits) continue;
      const uint32_t number = number_in(there);
      if (__builtin_expect(id != 0, 1)) return number;
      const StackCell* found = cell(number);
      if (found && found->code == code && found->kind == kind) return number;
    }
  }
  return add_cell(*index, key, parent, code, kind);
}

uint32_t StackTable::add_cell(Index& index, uint64_t key, uint32_t parent, uint64_t code, CellKind kind) {
  const uint32_t number = index.lines ? claim(1) : 0;
  StackCell* fresh = number ? cell(number) : nullptr;
  if (!fresh) return 0;
  fresh->code = code;
  fresh->parent = parent;
  std::atomic_ref<CellKind>(fresh->kind).store(kind, std::memory_order_release);
  const bool placed = put(index, key | number);
  if (HEAPSPY_UNLIKELY(!placed || index.used.load(std::memory_order_relaxed) > index.lines * (kInLine / 2))) grow(&index);
  return number;
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

bool StackTable::add_method(uint32_t number, const Text* parts, int count) {
  uint64_t bytes = 0;
  for (int i = 0; i < count; i++) bytes += parts[i].bytes;
  const auto more = static_cast<uint32_t>((sizeof(MethodRecord) + bytes + sizeof(StackCell) - 1) / sizeof(StackCell));
  const uint32_t first = more < kCells0 ? claim(1 + more) : 0;
  StackCell* head = first ? cell(first) : nullptr;
  if (!head) return false;
  const MethodRecord record{static_cast<uint32_t>(bytes), 0};
  char* to = reinterpret_cast<char*>(head + 1);
  __builtin_memcpy(to, &record, sizeof record);
  to += sizeof record;
  for (int i = 0; i < count; i++) {
    __builtin_memcpy(to, parts[i].at, parts[i].bytes);
    to += parts[i].bytes;
  }
  head->code = static_cast<uint64_t>(more) << 32 | number;
  std::atomic_ref<CellKind>(head->kind).store(CellKind::method, std::memory_order_release);
  return true;
}

PlaceEntry* StackTable::place_for(uint32_t entries) {
  const uint32_t more = place_cells(entries);
  const uint32_t first = more < kCells0 ? claim(1 + more) : 0;
  StackCell* head = first ? cell(first) : nullptr;
  return head ? reinterpret_cast<PlaceEntry*>(head + 1) : nullptr;
}

void StackTable::publish_place(uint32_t number, uint32_t entries, PlaceEntry* written) {
  StackCell* head = reinterpret_cast<StackCell*>(written) - 1;
  head->parent = entries;
  head->code = static_cast<uint64_t>(place_cells(entries)) << 32 | number;
  std::atomic_ref<CellKind>(head->kind).store(kPlaceCell, std::memory_order_release);
}

void StackTable::count_lost() {
  std::atomic_ref<uint64_t>(recorder->file.header().stacks_lost).fetch_add(1, std::memory_order_relaxed);
}

}  // namespace heapspy
