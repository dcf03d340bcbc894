// Everything of glibc's heaps that a walk needs, copied while the target stands still: arenas, heaps, the headers of mapped
// blocks, and of each thread the words among which its thread cache is. Nothing is interpreted beyond what it takes to know
// what to copy; that is done when the target runs again (chunk_walk.h).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/heap/arena_finder.h"
#include "analyzer/heap/copied_range.h"
#include "analyzer/heap/glibc_layout.h"
#include "analyzer/process/target.h"

namespace heapspy::heap {

// A malloc_state as it stands in memory.
struct ArenaCopy {
  std::uint64_t address = 0;
  unsigned bins = 0;
  std::vector<std::uint64_t> words;

  bool main = false;
  std::uint64_t bins_address() const { return address + bins; }
  std::uint64_t from_bins(std::int64_t offset) const { return words[static_cast<std::size_t>(bins + offset) / 8]; }
  std::uint64_t top() const { return from_bins(kTopFromBins); }
  // First and last chunk of bin `i`; the bin's own address where it is empty.
  std::uint64_t bin_first(std::uint64_t i) const { return from_bins(static_cast<std::int64_t>(16 * i)); }
  std::uint64_t bin_last(std::uint64_t i) const { return from_bins(static_cast<std::int64_t>(16 * i + 8)); }
  std::uint64_t bin_address(std::uint64_t i) const { return bins_address() + 16 * i - 16; }
  // The ten words in front of `top`; only where the layout has fast bins.
  std::uint64_t fast_bin(std::uint64_t i) const { return from_bins(kTopFromBins - 80 + static_cast<std::int64_t>(8 * i)); }
  bool locked() const { return static_cast<std::uint32_t>(words[0]) != 0; }
  bool contiguous() const { return (words[0] >> 32 & 2) == 0; }
  std::uint64_t system_bytes(const GlibcLayout& layout) const {
    return from_bins(kAfterNextFromBins + (layout.attached_threads ? 8 : 0));
  }
  std::uint64_t attached_threads() const { return from_bins(kAfterNextFromBins); }
};

// One heap: of the main arena what brk gave it (or a mapping in its place), of another arena a region that it mapped.
struct HeapRegion {
  std::size_t arena = 0;  // index into HeapCopy::arenas
  bool secondary = false;
  bool of_brk = false;
  std::uint64_t start = 0, end = 0;  // secondary: from heap_info on, `size` bytes
  CopiedRange memory;
};

// A block that malloc mapped for itself.
struct MappedBlock {
  std::uint64_t chunk = 0;           // address of its header
  std::uint64_t start = 0, end = 0;  // of the mapping
  std::optional<std::uint64_t> resident_bytes;
};

struct ThreadWords {
  pid_t tid = 0;
  std::uint64_t thread_pointer = 0;
  CopiedRange memory;  // the thread's variables (static TLS) next to the thread pointer
};

struct HeapCopy {
  ArenaRing ring;
  std::optional<Parameters> parameters;
  std::vector<ArenaCopy> arenas;    // main first
  std::vector<HeapRegion> regions;  // by address
  std::vector<MappedBlock> mapped;  // by address
  std::vector<ThreadWords> threads;
  std::vector<std::string> problems;  // what could not be copied, one line each
  bool residency_known = true;
  std::uint64_t page_bytes = 4096;
  std::uint64_t copied_bytes = 0;

  // Whether a thread was inside malloc in this arena.
  bool any_locked() const;
};

// nullopt: no glibc arenas in it. `room`: prepared memory, may be nullptr.
std::optional<HeapCopy> copy_heaps(const process::Target&, const std::shared_ptr<CopyRoom>& room = nullptr);

// What copy_heaps is likely to copy, by what smaps says is resident in mappings that look like heaps.
std::uint64_t expected_copy_bytes(const std::vector<process::Mapping>& smaps);

}  // namespace heapspy::heap
