// The text of /proc/PID/maps and /proc/PID/smaps (proc(5)), parsed. Total: any text gives a list, lines that are not
// understood are counted.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heapspy::process {

// One mapping. Sizes are bytes; those that only smaps knows are 0 after /maps.
struct Mapping {
  std::uint64_t start = 0, end = 0;
  std::uint64_t file_offset = 0, inode = 0;
  std::uint32_t device_major = 0, device_minor = 0;
  bool read = false, write = false, execute = false, shared = false;
  std::string name;  // path, "[heap]", "[anon:…]", "" …; newlines stand as \012, as the kernel writes them
  std::uint64_t rss_bytes = 0, anonymous_bytes = 0, swap_bytes = 0, anon_huge_bytes = 0, private_dirty_bytes = 0;

  std::uint64_t size_bytes() const { return end - start; }
  // Private memory without a file behind it, whatever name the kernel or prctl gave it.
  bool anonymous() const { return inode == 0 && !shared && !name.starts_with('/'); }
};

struct MappingList {
  std::vector<Mapping> mappings;    // in the order of the text: by address
  std::uint64_t damaged_lines = 0;  // neither a mapping nor a "Key: value" line below one
};

// Reads both forms. Linear in the text.
MappingList parse_mappings(std::string_view text);

}  // namespace heapspy::process
