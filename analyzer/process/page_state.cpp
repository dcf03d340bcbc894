#include "analyzer/process/page_state.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace heapspy::process {
namespace {

// linux/fs.h of 6.7 and later; older headers do not have it.
struct ScannedRegion {
  std::uint64_t start, end, categories;
};
struct ScanRequest {
  std::uint64_t size, flags, start, end, walk_end, regions, regions_size, most_pages;
  std::uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
static_assert(sizeof(ScanRequest) == 96);
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanRequest);
constexpr std::uint64_t kPresent = 1 << 3, kSwapped = 1 << 4, kZeroPage = 1 << 5;

bool scan_by_ioctl(int page_map, std::uint64_t start, std::uint64_t page_bytes, std::vector<PageState>& states) {
  std::vector<ScannedRegion> regions(2048);
  ScanRequest request{};
  request.size = sizeof request;
  request.start = start;
  request.end = start + states.size() * page_bytes;
  request.regions = reinterpret_cast<std::uint64_t>(regions.data());
  request.regions_size = regions.size();
  request.category_anyof_mask = kPresent | kSwapped;
  request.return_mask = kPresent | kSwapped | kZeroPage;
  while (request.start < request.end) {
    const int found = ::ioctl(page_map, kPagemapScan, &request);
    if (found < 0) return false;
    for (int i = 0; i < found; i++) {
      const ScannedRegion& each = regions[static_cast<std::size_t>(i)];
      if (each.start < start || each.end > request.end || each.end < each.start) return false;
      const PageState state = each.categories & kSwapped    ? PageState::swapped
                              : each.categories & kZeroPage ? PageState::zero
                                                            : PageState::resident;
      std::fill(states.begin() + static_cast<std::ptrdiff_t>((each.start - start) / page_bytes),
                states.begin() + static_cast<std::ptrdiff_t>((each.end - start) / page_bytes), state);
    }
    if (request.walk_end <= request.start) return false;
    request.start = request.walk_end;
  }
  return true;
}

bool scan_by_entries(int page_map, std::uint64_t start, std::uint64_t page_bytes, std::vector<PageState>& states) {
  std::uint64_t entries[4096];
  for (std::size_t done = 0; done < states.size();) {
    const std::size_t wanted = std::min(states.size() - done, std::size(entries));
    const ssize_t got = ::pread(page_map, entries, wanted * sizeof entries[0],
                                static_cast<off_t>((start / page_bytes + done) * sizeof entries[0]));
    if (got < 0 && errno == EINTR) continue;
    const std::size_t count = got > 0 ? static_cast<std::size_t>(got) / sizeof entries[0] : 0;
    if (count == 0) return false;
    for (std::size_t i = 0; i < count; i++)
      states[done + i] = entries[i] >> 63 & 1   ? PageState::resident
                         : entries[i] >> 62 & 1 ? PageState::swapped
                                                : PageState::absent;
    done += count;
  }
  return true;
}

}  // namespace

std::optional<std::vector<PageState>> scan_pages(int page_map, std::uint64_t start, std::size_t pages,
                                                 std::uint64_t page_bytes) {
  std::vector<PageState> states(pages, PageState::absent);
  if (pages == 0 || scan_by_ioctl(page_map, start, page_bytes, states)) return states;
  std::fill(states.begin(), states.end(), PageState::absent);
  if (scan_by_entries(page_map, start, page_bytes, states)) return states;
  return std::nullopt;
}

}  // namespace heapspy::process
