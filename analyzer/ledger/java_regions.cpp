#include "analyzer/ledger/java_regions.h"

#include <algorithm>
#include <cstddef>

namespace heapspy::ledger {
namespace {

using process::Mapping;
using process::MappingKind;

constexpr std::uint64_t kCompressedEnd = 32ull << 30;
constexpr std::uint64_t kNodeBytes = 64ull << 20, kRootChunkBytes = 4ull << 20;
constexpr std::uint64_t kCardBytes = 512;                  // of heap for a byte of a card table
constexpr std::uint64_t kCollectorsReserve = 64ull << 10;  // guard pages of a stack are less
constexpr std::uint64_t kSnapshotRoom = 192ull << 20;      // that the recorder reserves while it writes one
constexpr std::uint64_t kClassSpaceAlignment = 16ull << 20, kClassSpaceBytes = 1ull << 30;  // CompressedClassSpaceSize

bool unnamed_memory(const Mapping& m, MappingKind kind) {
  return m.name.empty() && (kind == MappingKind::anonymous || kind == MappingKind::reserved);
}

class Finder {
 public:
  Finder(std::span<const Mapping> mappings, std::span<const MappingKind> kinds) : mappings_(mappings), kinds_(kinds) {
    result_.regions.resize(mappings.size(), JavaRegion::none);
  }

  JavaRegions run() {
    for (const Mapping& m : mappings_) {
      const std::size_t slash = m.name.rfind('/');
      if (slash != std::string::npos && m.name.compare(slash + 1, 9, "libjvm.so") == 0) result_.jvm = true;
    }
    if (!result_.jvm) return std::move(result_);
    for (std::size_t i = 0; i < mappings_.size(); i++)
      if (is_archive(i) && holds_classes(i)) adjoining_archive(i);
    for (std::size_t i = 0; i < mappings_.size(); i++) look_at(i);
    for (std::size_t i = 0; i < mappings_.size(); i++)
      if (is_archive(i)) claim_archive(i);
    for (std::size_t i = 0; i < mappings_.size(); i++) metaspace_node(i);
    if (!result_.heap_found) uncompressed_heap();
    collectors_memory();
    return std::move(result_);
  }

 private:
  bool is_archive(std::size_t i) const { return mappings_[i].name.ends_with(".jsa"); }

  // An archive's classes come first in its file; its objects, mapped into the heap, later.
  bool holds_classes(std::size_t archive) const {
    return std::none_of(mappings_.begin(), mappings_.end(), [&](const Mapping& m) {
      return m.name == mappings_[archive].name && m.file_offset < mappings_[archive].file_offset;
    });
  }

  void look_at(std::size_t i) {
    const Mapping& m = mappings_[i];
    if (result_.regions[i] != JavaRegion::none) return;
    if (m.name.starts_with("/memfd:java_heap") || (unnamed_memory(m, kinds_[i]) && m.end <= kCompressedEnd && !m.execute)) {
      result_.regions[i] = JavaRegion::heap;
      if (m.rss_bytes) result_.heap_found = true;
    } else if (kinds_[i] == MappingKind::executable_anonymous) {
      result_.regions[i] = JavaRegion::code;
    }
  }

  void claim_archive(std::size_t i) {
    const bool after_heap = i > 0 && joins(i - 1, i) && result_.regions[i - 1] == JavaRegion::heap;
    const bool before_heap = i + 1 < mappings_.size() && joins(i, i + 1) && result_.regions[i + 1] == JavaRegion::heap;
    const bool objects = (after_heap || before_heap) && !holds_classes(i);
    result_.regions[i] = objects ? JavaRegion::heap : JavaRegion::archive;
  }

  void claim(std::size_t i) {
    if (result_.regions[i] == JavaRegion::none) result_.regions[i] = JavaRegion::metaspace;
  }

  bool joins(std::size_t lower, std::size_t upper) const { return mappings_[lower].end == mappings_[upper].start; }

  void adjoining_archive(std::size_t archive) {
    const std::uint64_t archive_end = (mappings_[archive].end + kClassSpaceAlignment - 1) & ~(kClassSpaceAlignment - 1);
    const std::uint64_t limit = archive_end + kClassSpaceBytes;
    for (std::size_t i = archive + 1; i < mappings_.size() && joins(i - 1, i) && mappings_[i].end <= limit; i++) {
      if (!unnamed_memory(mappings_[i], kinds_[i])) break;
      claim(i);
    }
    // Below it lies at most one node of metaspace.
    std::size_t first = archive;
    while (first > 0 && joins(first - 1, first) && unnamed_memory(mappings_[first - 1], kinds_[first - 1]) &&
           mappings_[archive].start - mappings_[first - 1].start <= kNodeBytes)
      first--;
    // A block that malloc mapped right below may be one mapping with its first pages.
    const std::uint64_t node = mappings_[archive].start - kNodeBytes;
    const bool merged = first > 0 && joins(first - 1, first) && unnamed_memory(mappings_[first - 1], kinds_[first - 1]) &&
                        mappings_[first - 1].start < node && mappings_[first - 1].write;
    if (merged || mappings_[first].start == node)
      for (std::size_t i = first - merged; i < archive; i++) claim(i);
  }

  // Starts at `i`: a run without gaps that is one node long, and ends in memory not committed yet.
  void metaspace_node(std::size_t i) {
    if (mappings_[i].start % kRootChunkBytes != 0) return;
    std::size_t last = i;
    while (unnamed_memory(mappings_[last], kinds_[last]) && result_.regions[last] == JavaRegion::none) {
      const std::uint64_t size = mappings_[last].end - mappings_[i].start;
      if (size == kNodeBytes) {
        if (kinds_[last] == MappingKind::reserved && last > i)
          for (std::size_t n = i; n <= last; n++) claim(n);
        return;
      }
      if (size > kNodeBytes || last + 1 == mappings_.size() || !joins(last, last + 1)) return;
      last++;
    }
  }

  // Without compressed pointers the heap is anywhere, but then it is larger than they reach.
  void uncompressed_heap() {
    for (std::size_t first = 0; first < mappings_.size();) {
      std::size_t end = first;
      while (end < mappings_.size() && (end == first || joins(end - 1, end)) && unnamed_memory(mappings_[end], kinds_[end]) &&
             result_.regions[end] == JavaRegion::none)
        end++;
      if (end > first && mappings_[end - 1].end - mappings_[first].start >= kCompressedEnd)
        for (std::size_t i = first; i < end; i++) {
          result_.regions[i] = JavaRegion::heap;
          if (mappings_[i].rss_bytes) result_.heap_found = true;
        }
      first = std::max(end, first + 1);
    }
  }

  // Rows without a gap, of committed memory and of reserved.
  void collectors_memory() {
    const auto unclaimed = [&](std::size_t i) {
      return unnamed_memory(mappings_[i], kinds_[i]) && result_.regions[i] == JavaRegion::none;
    };
    const std::uint64_t heap = heap_bytes();
    for (std::size_t first = 0; first < mappings_.size();) {
      std::size_t end = first;
      bool reserves = false;
      while (end < mappings_.size() && (end == first || joins(end - 1, end)) && unclaimed(end)) {
        const bool of_recorder = end > first && mappings_[end].end - mappings_[end - 1].start == kSnapshotRoom;
        reserves |= kinds_[end] == MappingKind::reserved && mappings_[end].size_bytes() >= kCollectorsReserve && !of_recorder;
        end++;
      }
      for (std::size_t i = first; i < end; i++)
        if (reserves || (heap && has_collectors_size(mappings_[i].size_bytes(), heap)))
          result_.regions[i] = JavaRegion::collector;
      first = std::max(end, first + 1);
    }
  }

  std::uint64_t heap_bytes() const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < mappings_.size(); i++)
      if (result_.regions[i] == JavaRegion::heap) bytes += mappings_[i].size_bytes();
    return bytes;
  }

  static bool has_collectors_size(std::uint64_t bytes, std::uint64_t heap) {
    constexpr std::uint64_t kSmall = 1ull << 20;  // where many things have one size
    const std::uint64_t cards = heap / kCardBytes;
    return bytes >= kSmall &&
           std::any_of(std::begin(kCards), std::end(kCards), [&](std::uint64_t times) { return bytes == times * cards; });
  }

  static constexpr std::uint64_t kCards[] = {1, 2, 3, 8, 16, 32};

  std::span<const Mapping> mappings_;
  std::span<const MappingKind> kinds_;
  JavaRegions result_;
};

}  // namespace

JavaRegions java_regions(std::span<const Mapping> mappings, std::span<const MappingKind> kinds) {
  return Finder(mappings, kinds).run();
}

}  // namespace heapspy::ledger
