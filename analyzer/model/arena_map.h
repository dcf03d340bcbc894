// Which arena an address belongs to, at the moment of a snapshot.
//   main       the "[heap]" mappings, up to the end of brk
//   secondary  glibc's heaps of 64 MiB, one arena per chain (Snapshot::heaps)
//   mmapped    large blocks that glibc got from mmap, one mapping each
//   other      every other block: another allocator's, a main arena without brk, memory of the loader
// Without glibc all is `other`.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "analyzer/model/heap_facts.h"
#include "analyzer/trace/snapshot.h"

namespace heapspy::model {

enum class ArenaKind : std::uint8_t { main, secondary, mmapped, other };
std::string_view name(ArenaKind);  // as in `report --json`

// A stretch of one arena: the main heap, or one heap of a secondary arena.
struct HeapSpan {
  std::uint64_t begin = 0, end = 0;  // what the allocator may use of it now
  std::uint32_t arena = 0;           // index
  std::uint64_t header_bytes = 0;    // heap_info, and malloc_state in an arena's first heap: in use, but no block
  bool newest = false;               // its end is the arena's top
  std::uint64_t top = 0;             // newest: where top begins, 0 unknown
};

struct ArenaSpan {
  ArenaKind kind = ArenaKind::other;
  std::uint64_t address = 0;  // main: start of [heap]; secondary: its malloc_state; else 0
  std::uint64_t heaps = 0;
  std::uint64_t system_bytes = 0;
};

class ArenaMap {
 public:
  // From addresses alone (no snapshot): everything is `other`.
  explicit ArenaMap(const HeapFacts& facts);
  ArenaMap(const HeapFacts& facts, const trace::Snapshot&);

  const std::vector<ArenaSpan>& arenas() const { return arenas_; }
  const std::vector<HeapSpan>& heaps() const { return heaps_; }  // by address, no overlaps
  // Index into heaps(), or npos: then the block belongs to mmapped_index() or other_index().
  std::size_t heap_of(std::uint64_t address) const;
  std::uint32_t mmapped_index() const { return mmapped_; }
  std::uint32_t other_index() const { return other_; }
  // Of a block outside heaps().
  std::uint32_t outside(std::uint64_t address, std::uint64_t size) const;

  static constexpr std::size_t npos = ~std::size_t{0};

 private:
  HeapFacts facts_;
  std::vector<ArenaSpan> arenas_;
  std::vector<HeapSpan> heaps_;
  std::uint32_t mmapped_ = 0, other_ = 0;
};

}  // namespace heapspy::model
