// Finds glibc's arenas without symbols. main_arena stands in the writable segment of libc (or of a static program) and shows by
// its 127 bins: an empty one holds its own address twice, any other begins a list that leads back to it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/process/target.h"

namespace heapspy::heap {

struct ArenaRing {
  std::vector<std::uint64_t> arenas;                 // addresses of malloc_state; main first, then as `next` leads on
  unsigned bins = 0;                                 // offset of the bins in malloc_state, the same for the whole ring
  std::string library;                               // that main_arena is part of
  std::uint64_t segment_start = 0, segment_end = 0;  // of it
  unsigned bins_agreeing = 0;                        // of kBins
};

// nullopt: none; a malloc that was never called shows none either. Reads present pages only.
std::optional<ArenaRing> find_arenas(const process::Target&);

// malloc_par, found beside main_arena by what its fields may be.
struct Parameters {
  std::uint64_t address = 0;
  unsigned kind = 0;  // of kParametersLayouts
  std::uint64_t trim_threshold = 0, top_pad = 0, mmap_threshold = 0, arena_max = 0;
  std::uint64_t mapped_count = 0, mapped_bytes = 0, sbrk_base = 0;
  std::uint64_t huge_trim_bytes = 0, huge_page_bytes = 0;  // 0: off
  std::uint64_t cache_bins = 0, cache_largest = 0, cache_depth = 0;
};
std::optional<Parameters> find_parameters(const process::Target&, const ArenaRing&);

}  // namespace heapspy::heap
