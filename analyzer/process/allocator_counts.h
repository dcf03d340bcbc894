// What another allocator than glibc's counts of itself, as far as it stands in its memory and the library exports where: no
// code of it is run. gperftools' tcmalloc exports two counts (2.10 is tested). jemalloc (5.3) and mimalloc (2.0) export none,
// and both keep their sums by thread until code of theirs adds them up.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "analyzer/process/live_process.h"
#include "analyzer/process/mappings.h"

namespace heapspy::process {

struct AllocatorCounts {
  std::uint64_t taken_bytes = 0;               // of address space, from the kernel, since the start; tcmalloc gives none back
  std::optional<std::uint32_t> thread_caches;  // now
};

// `allocator`: as allocator_library names it. nullopt: it exports no counts, or is linked into a program that hides them.
std::optional<AllocatorCounts> allocator_counts(const LiveProcess&, std::span<const Mapping>, const std::string& allocator);

}  // namespace heapspy::process
