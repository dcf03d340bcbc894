// Where the pages of a range of a live process are, by /proc/PID/pagemap.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace heapspy::process {

enum class PageState : std::uint8_t {
  absent,    // never touched, or given back: reads as zeros, and reading would map a page
  zero,      // read but never written: the kernel's shared page of zeros, which RSS does not count
  resident,  // in RAM
  swapped,
};

// `page_map`: /proc/PID/pagemap. nullopt: may not be read. Before Linux 6.7 (PAGEMAP_SCAN) zero pages are not told from
// resident ones.
std::optional<std::vector<PageState>> scan_pages(int page_map, std::uint64_t start, std::size_t pages,
                                                 std::uint64_t page_bytes);

}  // namespace heapspy::process
