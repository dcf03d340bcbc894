// Where memory was at one moment, as the recorder saw it: mappings, resident pages, glibc heaps, cgroup.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/trace/event.h"
#include "heapspy/format/layout.h"

namespace heapspy::trace {

struct Mapping {
  std::uint64_t start = 0, end = 0, file_offset = 0, inode = 0;
  std::uint64_t rss_bytes = 0, anonymous_bytes = 0, swap_bytes = 0, anon_huge_bytes = 0, private_dirty_bytes = 0;
  bool read = false, write = false, execute = false, shared = false;
  std::string name;  // as in /proc/PID/maps: path, "[heap]", "[stack]", "" …
};

// Resident pages of one writable private anonymous mapping.
struct ResidentPages {
  std::uint64_t start = 0;
  std::uint64_t pages = 0;
  format::Residency kind = format::Residency::unknown;
  std::vector<std::uint64_t> bitmap;  // only for Residency::bitmap

  // nullopt: not known for this page, or not in this mapping.
  std::optional<bool> resident(std::uint64_t page_index) const {
    if (page_index >= pages) return std::nullopt;
    switch (kind) {
      case format::Residency::none: return false;
      case format::Residency::all: return true;
      case format::Residency::bitmap: return (bitmap[page_index / 64] >> (page_index % 64) & 1) != 0;
      default: return std::nullopt;
    }
  }
};

struct Snapshot {
  Tick begin = 0, end = 0;
  format::SnapshotReason reason = format::SnapshotReason::exit;
  std::uint64_t rss_bytes = 0;       // sum over mappings
  std::uint64_t recorder_bytes = 0;  // resident in the recorder's private anonymous mappings
  std::optional<std::uint64_t> brk_end;
  std::uint64_t page_bytes = 4096;
  std::vector<Mapping> mappings;                      // by address
  std::vector<ResidentPages> resident;                // by address
  std::vector<ResidentPages> marked;                  // by address: of these, pages that no block's owner has touched
  std::vector<format::HeapRecord> heaps;              // by address
  std::map<std::uint32_t, std::string> thread_names;  // tid → comm
  std::string status_text;                            // /proc/PID/status
  std::map<std::string, std::string> cgroup;          // file name → content
};

}  // namespace heapspy::trace
