// Which arena an address belongs to, at the moment of a snapshot.
//   main       the "[heap]" mappings, up to the end of brk
//   secondary  glibc's heaps of 64 MiB, one arena per chain (Snapshot::heaps)
//   mmapped    large blocks that glibc got from mmap, one mapping each
//   other      every other block: another allocator's, a main arena without brk, memory of the loader
// Without glibc, or without a snapshot, all is `other`.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "analyzer/model/heap_facts.h"
#include "analyzer/trace/snapshot.h"

namespace heapspy::model {

enum class ArenaKind : std::uint8_t { main, secondary, mmapped, other };
std::string_view name(ArenaKind);  // as in `report --json`

// A stretch of one arena: the main heap, or one heap of a secondary arena. Page-aligned.
struct HeapSpan {
  std::uint64_t begin = 0, end = 0;  // what the allocator may use of it now
  std::uint32_t arena = 0;           // index into arenas()
  std::uint64_t header_bytes = 0;    // heap_info, malloc_state, the main thread's tcache: in use, but no block
  std::uint64_t previous = 0;        // begin of the heap before it in the chain, 0 none
  bool newest = false;               // its end is the arena's top
  std::uint64_t top = 0;             // newest of a secondary arena: where top begins, 0 unknown

  std::uint64_t header_on(std::uint64_t page) const {  // bytes of the header on the page at this address
    const std::uint64_t header_end = begin + header_bytes;
    if (page >= header_end) return 0;
    return header_end - page < kPageBytes ? header_end - page : kPageBytes;
  }
};

struct ArenaSpan {
  ArenaKind kind = ArenaKind::other;
  std::uint64_t address = 0;  // main: start of [heap]; secondary: its malloc_state; else 0
  std::uint64_t heaps = 0;
  std::uint64_t system_bytes = 0;  // main, secondary
  std::uint64_t header_bytes = 0;  // of its heaps
};

class ArenaMap {
 public:
  static constexpr std::size_t npos = ~std::size_t{0};

  // `snapshot` may be null.
  ArenaMap(const HeapFacts&, const trace::Snapshot* snapshot);

  // main (if there is one), secondary ones by address, mmapped, other
  const std::vector<ArenaSpan>& arenas() const { return arenas_; }
  const std::vector<HeapSpan>& heaps() const { return heaps_; }  // by address, no overlaps
  // Index into heaps(), or npos: then the block belongs to `mmapped` or `other`.
  std::size_t heap_of(std::uint64_t address) const;
  std::uint32_t mmapped_index() const { return static_cast<std::uint32_t>(arenas_.size()) - 2; }
  std::uint32_t other_index() const { return static_cast<std::uint32_t>(arenas_.size()) - 1; }

 private:
  void add_main(const HeapFacts&, const trace::Snapshot&);
  void add_secondary(const HeapFacts&, const trace::Snapshot&);

  std::vector<ArenaSpan> arenas_;
  std::vector<HeapSpan> heaps_;
};

}  // namespace heapspy::model
