// Every mapping of a live process summed by kind: what `heapspy maps` shows.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/process/live_process.h"
#include "analyzer/process/mapping_kinds.h"

namespace heapspy::process {

struct KindTotal {
  MappingKind kind{};
  std::uint64_t count = 0;  // mappings
  std::uint64_t size_bytes = 0;
  std::uint64_t rss_bytes = 0;  // smaps "Rss": pages shared with other processes count in full
  std::uint64_t swap_bytes = 0;
  bool executable = false;
};

struct MemoryMap {
  std::vector<KindTotal> kinds;  // kinds that occur, largest resident first
  std::uint64_t mappings = 0;
  std::uint64_t size_bytes = 0, rss_bytes = 0, swap_bytes = 0;  // sums over all mappings
  std::uint64_t executable_mappings = 0;
  std::uint64_t regions_64mib = 0;                // heaps of glibc's secondary arenas
  bool regions_proven = true;                     // false: by shape, because the process's memory may not be read
  std::optional<std::uint64_t> page_table_bytes;  // VmPTE
  double scan_s = 0;                              // wall time of reading and sorting all this
};

// Reads smaps once. The process runs on meanwhile, so figures may be of moments up to scan_s apart. Throws TargetError.
MemoryMap scan_memory_map(const LiveProcess& target);

// Sums mappings that are already classified (for tests, and for the text of other moments).
MemoryMap sum_by_kind(std::span<const Mapping> mappings, const Classification& classification);

}  // namespace heapspy::process
