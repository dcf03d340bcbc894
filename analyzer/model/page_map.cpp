#include "analyzer/model/page_map.h"

#include <algorithm>

#include "analyzer/model/residency.h"

namespace heapspy::model {
namespace {

constexpr std::uint64_t kDirectoryShift = 11, kTopLimit = 1ull << 21;  // in regions of 64 MiB

std::uint64_t overlap(Span span, std::uint64_t page_number) {
  const std::uint64_t begin = std::max(span.begin, page_number * kPageBytes);
  const std::uint64_t end = std::min(span.end, (page_number + 1) * kPageBytes);
  return end > begin ? end - begin : 0;
}

// The page that a chunk whose occupied bytes end at `end` guards (PageCounts::guards): one that starts within 40 bytes
// behind. The chunk itself ends 8 bytes earlier, and malloc_trim starts at the first page 48 bytes behind that.
bool guards(std::uint64_t end, std::uint64_t& page_number) {
  page_number = (end + 39) / kPageBytes;
  return page_number != (end - 1) / kPageBytes;
}

}  // namespace

PageMap::PageMap(const HeapFacts& facts) : facts_(facts) {}
PageMap::~PageMap() = default;

PageMap::Leaf* PageMap::find(std::uint64_t region) const {
  if (region == last_region_) return last_leaf_;
  Leaf* found = nullptr;
  if (region < kTopLimit) {
    const auto& directory = top_[region >> kDirectoryShift];
    if (directory) found = directory->leaves[region % kDirectory].get();
  } else if (const auto at = beyond_.find(region); at != beyond_.end()) {
    found = at->second.get();
  }
  if (found) {
    last_region_ = region;
    last_leaf_ = found;
  }
  return found;
}

PageMap::Leaf& PageMap::make(std::uint64_t region) {
  if (idle_ > kIdleLeaves + leaves_ / 4) sweep();
  std::unique_ptr<Leaf>* place;
  if (region < kTopLimit) {
    auto& directory = top_[region >> kDirectoryShift];
    if (!directory) directory = std::make_unique<Directory>();
    place = &directory->leaves[region % kDirectory];
  } else {
    place = &beyond_[region];
  }
  *place = std::make_unique<Leaf>();
  leaves_++;
  idle_++;
  last_region_ = region;
  last_leaf_ = place->get();
  return **place;
}

void PageMap::sweep() {
  last_region_ = ~0ull;
  last_leaf_ = nullptr;
  for (auto& directory : top_)
    if (directory)
      for (auto& leaf : directory->leaves)
        if (leaf && leaf->touches == 0) {
          leaf.reset();
          leaves_--;
        }
  leaves_ -= std::erase_if(beyond_, [](const auto& entry) { return entry.second->touches == 0; });
  idle_ = 0;
}

void PageMap::clear() {
  for (auto& directory : top_) directory.reset();
  beyond_.clear();
  large_.clear();
  last_region_ = ~0ull;
  last_leaf_ = nullptr;
  live_blocks_ = live_bytes_ = leaves_ = idle_ = 0;
}

inline void PageMap::touch(std::uint64_t page_number, std::uint64_t delta) {
  Leaf* leaf = find(page_number / kLeafPages);
  if (!leaf) leaf = &make(page_number / kLeafPages);
  if (leaf->touches++ == 0) idle_--;
  const std::uint64_t page = page_number % kLeafPages;
  leaf->words[page] += delta;
  if (leaf->after_large) [[unlikely]]
    (*leaf->after_large)[page / 64] &= ~(1ull << (page % 64));
}

inline void PageMap::untouch(std::uint64_t page_number, std::uint64_t delta) {
  Leaf* leaf = find(page_number / kLeafPages);
  if (!leaf) return;
  leaf->words[page_number % kLeafPages] -= delta;
  if (--leaf->touches == 0) idle_++;
}

template <class Visit>
void PageMap::for_each_page(Span span, Visit visit) {
  const std::uint64_t first = span.begin / kPageBytes;
  const std::uint64_t last = (span.end > span.begin ? span.end - 1 : span.begin) / kPageBytes;
  for (std::uint64_t page = first; page <= last; page++) visit(page);
}

void PageMap::add(std::uint64_t address, std::uint64_t size) {
  live_blocks_++;
  live_bytes_ += size;
  if (size >= kLargeBlockBytes) {
    large_[address] = size;
    return;
  }
  const Span span = occupied(facts_, address, size), asked{address, address + size};
  for_each_page(span, [&](std::uint64_t page) {
    touch(page, kBlockUnit + kUsedUnit * overlap(span, page) + kLiveUnit * overlap(asked, page));
  });
  std::uint64_t guarded;
  if (facts_.glibc && guards(span.end, guarded)) touch(guarded, kGuardUnit);
}

void PageMap::remove(std::uint64_t address, std::uint64_t size) {
  live_blocks_--;
  live_bytes_ -= size;
  if (size >= kLargeBlockBytes) {
    large_.erase(address);
    return;
  }
  const Span span = occupied(facts_, address, size), asked{address, address + size};
  for_each_page(span, [&](std::uint64_t page) {
    untouch(page, kBlockUnit + kUsedUnit * overlap(span, page) + kLiveUnit * overlap(asked, page));
  });
  std::uint64_t guarded;
  if (facts_.glibc && guards(span.end, guarded)) untouch(guarded, kGuardUnit);
}

void PageMap::cache(std::uint64_t address, std::uint64_t size) {
  live_blocks_--;
  live_bytes_ -= size;
  const Span span = occupied(facts_, address, size), asked{address, address + size};
  for_each_page(span, [&](std::uint64_t page) {
    Leaf* leaf = find(page / kLeafPages);
    if (!leaf) return;
    leaf->words[page % kLeafPages] +=
        (kCachedUnit - kUsedUnit) * overlap(span, page) - kLiveUnit * overlap(asked, page) - kBlockUnit;
  });
}

void PageMap::uncache(std::uint64_t address, std::uint64_t chunk_bytes) {
  const Span span = occupied(facts_, address, chunk_bytes - 8);
  for_each_page(span, [&](std::uint64_t page) { untouch(page, kCachedUnit * overlap(span, page)); });
  std::uint64_t guarded;
  if (facts_.glibc && guards(span.end, guarded)) untouch(guarded, kGuardUnit);
}

void PageMap::ended_in_heap(std::uint64_t address, std::uint64_t size) {
  const std::uint64_t first = (address + kPageBytes - 1) / kPageBytes, end = (address + size) / kPageBytes;
  if (end < first || end - first > kLeafPages) return;  // larger than any heap's
  for (std::uint64_t page_number = first; page_number < end; page_number++) {
    Leaf* leaf = find(page_number / kLeafPages);
    if (!leaf) leaf = &make(page_number / kLeafPages);
    if (!leaf->after_large) leaf->after_large = std::make_unique<std::array<std::uint64_t, kLeafPages / 64>>();
    const std::uint64_t page = page_number % kLeafPages;
    (*leaf->after_large)[page / 64] |= 1ull << (page % 64);
  }
}

LargeBlocksOnPages::LargeBlocksOnPages(PageMap& pages, const Residency& residency) : pages_(pages), residency_(residency) {
  put(false);
}

LargeBlocksOnPages::~LargeBlocksOnPages() { put(true); }

void LargeBlocksOnPages::put(bool take_away) {
  for (const auto& [address, size] : pages_.large_) {
    const Span span = occupied(pages_.facts_, address, size), asked{address, address + size};
    if (span.end < span.begin || span.end > ~0ull - 2 * kPageBytes) continue;  // no such block: damage
    const auto change = [&](std::uint64_t page, std::uint64_t delta) {
      take_away ? pages_.untouch(page, delta) : pages_.touch(page, delta);
    };
    const std::uint64_t begin = span.begin / kPageBytes * kPageBytes;
    const std::uint64_t end = (span.end + kPageBytes - 1) / kPageBytes * kPageBytes;
    residency_.for_each_resident(begin, end, [&](std::uint64_t page_address) {
      const std::uint64_t page = page_address / kPageBytes;
      change(page, kBlockUnit + kUsedUnit * overlap(span, page) + kLiveUnit * overlap(asked, page));
    });
    std::uint64_t guarded;
    if (pages_.facts_.glibc && guards(span.end, guarded)) change(guarded, kGuardUnit);
  }
}

}  // namespace heapspy::model
