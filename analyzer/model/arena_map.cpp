#include "analyzer/model/arena_map.h"

#include <algorithm>
#include <map>
#include <set>

namespace heapspy::model {
namespace {

std::uint64_t malloc_state_bytes(std::uint32_t glibc_minor) {  // malloc/malloc.c, 64-bit
  if (glibc_minor >= 43) return 2112;
  return glibc_minor && glibc_minor < 27 ? 2192 : 2200;
}

// The first chunk of the main heap is the main thread's tcache, made before its first block (until 2.42, where it comes
// with the first free). It is no block of the trace.
std::uint64_t first_tcache_bytes(const HeapFacts& facts) {
  if (facts.cache_depth == 0 || facts.glibc_minor >= 42) return 0;
  return facts.glibc_minor && facts.glibc_minor < 30 ? 0x250 : 0x290;
}

}  // namespace

std::string_view name(ArenaKind kind) {
  switch (kind) {
    case ArenaKind::main: return "main";
    case ArenaKind::secondary: return "secondary";
    case ArenaKind::mmapped: return "mmapped";
    default: return "other";
  }
}

ArenaMap::ArenaMap(const HeapFacts& facts, const trace::Snapshot* snapshot) {
  if (snapshot && facts.glibc) {
    add_main(facts, *snapshot);
    add_secondary(facts, *snapshot);
  }
  arenas_.push_back({ArenaKind::mmapped, 0, 0, 0, 0});
  arenas_.push_back({ArenaKind::other, 0, 0, 0, 0});
  std::sort(heaps_.begin(), heaps_.end(), [](const HeapSpan& a, const HeapSpan& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i + 1 < heaps_.size(); i++) heaps_[i].end = std::min(heaps_[i].end, heaps_[i + 1].begin);
}

void ArenaMap::add_main(const HeapFacts& facts, const trace::Snapshot& snapshot) {
  std::uint64_t begin = ~0ull, end = 0;
  for (const trace::Mapping& m : snapshot.mappings)
    if (m.name == "[heap]") {
      begin = std::min(begin, m.start);
      end = std::max(end, m.end);
    }
  if (begin >= end) return;
  // brk may end before its last page does.
  if (snapshot.brk_end && *snapshot.brk_end > begin)
    end = std::min(end, (*snapshot.brk_end + kPageBytes - 1) / kPageBytes * kPageBytes);
  HeapSpan heap;
  heap.begin = begin;
  heap.end = end;
  heap.arena = 0;
  heap.header_bytes = first_tcache_bytes(facts);
  heap.newest = true;
  heaps_.push_back(heap);
  arenas_.push_back({ArenaKind::main, begin, 1, end - begin, heap.header_bytes});
}

void ArenaMap::add_secondary(const HeapFacts& facts, const trace::Snapshot& snapshot) {
  std::map<std::uint64_t, std::vector<const format::HeapRecord*>> chains;  // by arena
  for (const format::HeapRecord& record : snapshot.heaps) {
    const bool sane = record.address % kPageBytes == 0 && record.size >= kPageBytes && record.size <= kHeapRegionBytes &&
                      record.address + record.size > record.address;
    if (sane) chains[record.arena].push_back(&record);
  }
  for (const auto& [arena, records] : chains) {
    ArenaSpan span{ArenaKind::secondary, arena, records.size(), 0, 0};
    std::set<std::uint64_t> named;
    std::uint64_t top = 0, sizes = 0, reported = 0;
    for (const format::HeapRecord* record : records) {
      named.insert(record->previous);
      sizes += record->size;
      if (record->top) top = record->top;
      if (record->system_bytes) reported = record->system_bytes;
    }
    span.system_bytes = reported ? reported : sizes;
    for (const format::HeapRecord* record : records) {
      HeapSpan heap;
      heap.begin = record->address;
      heap.end = (record->address + record->size) / kPageBytes * kPageBytes;
      heap.arena = static_cast<std::uint32_t>(arenas_.size());
      heap.previous = record->previous;
      heap.newest = !named.contains(record->address);
      if (heap.newest && top >= heap.begin && top <= heap.end) heap.top = top;
      const bool first = arena >= record->address && arena - record->address < kPageBytes;
      if (first)
        heap.header_bytes = arena - record->address + malloc_state_bytes(facts.glibc_minor);
      else
        heap.header_bytes = (arena & 0xFFF) == 0x20 ? 0x20 : 0x30;  // heap_info, as the arena's place in its heap tells
      span.header_bytes += heap.header_bytes;
      heaps_.push_back(heap);
    }
    arenas_.push_back(span);
  }
}

std::size_t ArenaMap::heap_of(std::uint64_t address) const {
  const auto above =
      std::upper_bound(heaps_.begin(), heaps_.end(), address, [](std::uint64_t a, const HeapSpan& h) { return a < h.begin; });
  if (above == heaps_.begin() || address >= std::prev(above)->end) return npos;
  return static_cast<std::size_t>(above - heaps_.begin()) - 1;
}

}  // namespace heapspy::model
