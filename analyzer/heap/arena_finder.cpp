#include "analyzer/heap/arena_finder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "analyzer/heap/copied_range.h"
#include "analyzer/heap/glibc_layout.h"

namespace heapspy::heap {
namespace {

using process::Mapping;
using process::Target;

constexpr std::size_t kMostArenas = 100'000;
constexpr std::uint64_t kLargestBss = 1u << 20;  // main_arena stands in the initialised data; malloc_par too
constexpr std::uint64_t kLongestSegment = 64u << 20;
constexpr unsigned kEnoughBins = 120;  // of kBins: a running process may have a few amid a change
constexpr std::uint64_t kSampledStep = 16;
constexpr unsigned kEnoughSampled = 4;  // of 8
constexpr std::size_t kBinWords = 2 * kBins;

bool address_like(std::uint64_t word) { return word >= 0x1000 && word < (1ull << 56) && word % 8 == 0; }

struct Segment {
  std::uint64_t start = 0, end = 0;
  std::string name;
  bool libc = false;
};

bool is_libc(const std::string& path) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  return name.starts_with("libc.so") || name.starts_with("libc-2.");
}

std::vector<Segment> writable_segments(const Target& target) {
  std::vector<Segment> segments;
  const std::vector<Mapping>& all = target.mappings();
  for (std::size_t i = 0; i < all.size(); i++) {
    const Mapping& m = all[i];
    if (!m.write || !m.read || m.shared || !m.name.starts_with('/')) continue;
    Segment segment{m.start, std::min(m.end, m.start + kLongestSegment), m.name, is_libc(m.name)};
    if (i + 1 < all.size() && all[i + 1].start == m.end && all[i + 1].anonymous() && all[i + 1].write)
      segment.end = std::min(all[i + 1].end, m.end + kLargestBss);
    segments.push_back(std::move(segment));
  }
  std::stable_sort(segments.begin(), segments.end(), [](const Segment& a, const Segment& b) { return a.libc > b.libc; });
  return segments;
}

// Chunks are in no library's data: tables of pointers into it are sorted out without a read. Huge pages have a file of the
// kernel's.
bool may_be_chunk(const Target& target, std::uint64_t address) {
  if (!address_like(address) || address % kChunkAlignment) return false;
  const Mapping* memory = target.mapping_at(address);
  if (memory == nullptr || !memory->write) return false;
  return !memory->name.starts_with('/') || memory->name.starts_with("/anon_hugepage");
}

// Words of the target, page by page: a library's table may look like bins at ten thousand places, and all of these lead to the
// same few pages.
class SeenPages {
 public:
  explicit SeenPages(const Target& target) : target_(target) {}

  // 0 where it cannot be read; no link of a bin is. `address`: a multiple of 8.
  std::uint64_t word(std::uint64_t address) {
    const std::uint64_t page = address & ~(kPageBytes - 1);
    if (pages_.size() > kMostPages) pages_.clear();
    auto [seen, fresh] = pages_.try_emplace(page);
    if (fresh) {
      seen->second.resize(kPageBytes / 8);
      seen->second.resize(target_.read(page, std::as_writable_bytes(std::span(seen->second))) / 8);
    }
    const std::size_t index = (address - page) / 8;
    return index < seen->second.size() ? seen->second[index] : 0;
  }

 private:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::size_t kMostPages = 4096;
  const Target& target_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> pages_;
};

// How many of the bins at `bins_address`, whose words are given, hold together; of all, or of every so many.
unsigned agreeing_bins(const Target& target, SeenPages& seen, const std::uint64_t* words, std::uint64_t bins_address,
                       std::uint64_t step = 1) {
  unsigned agreeing = 0;
  for (std::uint64_t i = 0; i < kBins; i += step) {
    const std::uint64_t head = bins_address + 16 * i - 16, next = words[2 * i], previous = words[2 * i + 1];
    if (next == head && previous == head)
      agreeing++;
    else if (may_be_chunk(target, next) && may_be_chunk(target, previous))  // bk of the first chunk, fd of the last
      agreeing += seen.word(next + 24) == head && seen.word(previous + 16) == head;
  }
  return agreeing;
}

// Follows `next` from the arena after main_arena back to it. One offset of the bins for the whole ring: with another, a step
// would look into the middle of the bins and might still find addresses there.
std::vector<std::uint64_t> close_ring(const Target& target, std::uint64_t main_arena, std::uint64_t next, unsigned bins) {
  std::vector<std::uint64_t> arenas = {main_arena};
  while (next != main_arena) {
    if (arenas.size() == kMostArenas) return {};
    arenas.push_back(next);
    const auto first_bin = target.read_value<std::uint64_t>(next + bins);
    const auto after = target.read_value<std::uint64_t>(next + bins + kNextFromBins);
    if (!first_bin || !address_like(*first_bin) || !after || !address_like(*after)) return {};
    next = *after;
  }
  return arenas;
}

// A few bins first: of all places in a segment, hardly any passes.
bool may_be_bins(const std::uint64_t* words, std::uint64_t bins_address) {
  if (!address_like(words[kNextFromBins / 8])) return false;
  unsigned strange = 0;
  for (const std::uint64_t i : {0, 1, 7, 31, 63, 90, 110, 126})
    if (!address_like(words[2 * i]) || !address_like(words[2 * i + 1])) strange++;
  const bool any_empty = words[2 * 126] == bins_address + 16 * 126 - 16 || words[0] == bins_address - 16;
  return strange <= 1 && (any_empty || strange == 0);
}

std::optional<ArenaRing> search(const Target& target, const Segment& segment) {
  const std::vector<std::uint64_t> words = CopiedRange(target, segment.start, segment.end).words();
  constexpr std::size_t kNeeded = kBinWords + 8;
  SeenPages seen(target);
  for (std::size_t i = 2; i + kNeeded <= words.size(); i++) {
    const std::uint64_t bins_address = segment.start + i * 8;
    if (!may_be_bins(&words[i], bins_address)) continue;
    // A table of pointers passes that ten thousand times, and to ask for all their links takes seconds.
    if (agreeing_bins(target, seen, &words[i], bins_address, kSampledStep) < kEnoughSampled) continue;
    const unsigned agreeing = agreeing_bins(target, seen, &words[i], bins_address);
    if (agreeing < kEnoughBins) continue;
    for (const unsigned bins : {112u, 24u, 104u}) {
      const std::uint64_t next = words[i + kNextFromBins / 8];
      ArenaRing ring{
          close_ring(target, bins_address - bins, next, bins), bins, segment.name, segment.start, segment.end, agreeing};
      if (!ring.arenas.empty()) return ring;
    }
  }
  return std::nullopt;
}

// Fields of a malloc_par candidate.
class Fields {
 public:
  explicit Fields(const std::uint64_t* words) : words_(words) {}
  std::uint64_t word(unsigned offset) const { return words_[offset / 8]; }
  std::int32_t number(unsigned offset) const {
    std::int32_t value = 0;
    std::memcpy(&value, reinterpret_cast<const char*>(words_) + offset, sizeof value);
    return value;
  }

 private:
  const std::uint64_t* words_;
};

bool plausible(const Target& target, const Fields& f, const ParametersLayout& layout, std::uint64_t page) {
  const std::uint64_t trim = f.word(0), pad = f.word(8), threshold = f.word(16), test = f.word(24), most = f.word(32);
  if (trim == 0 || threshold < 32 || threshold > (1ull << 40) || pad > (1ull << 40)) return false;
  if (test == 0 || test > (1u << 20) || most > (1u << 20)) return false;
  const std::int32_t mapped = f.number(layout.mapped_count), limit = f.number(layout.mapped_count + 4);
  const std::int32_t most_mapped = f.number(layout.mapped_count + 8), fixed = f.number(layout.mapped_count + 12);
  if (mapped < 0 || limit < 0 || most_mapped < mapped || (fixed != 0 && fixed != 1)) return false;
  if (fixed == 0 && (threshold < (128u << 10) || threshold > (32u << 20))) return false;  // the dynamic one's range
  const std::uint64_t bytes = f.word(layout.mapped_bytes), most_bytes = f.word(layout.mapped_bytes + 8);
  if (bytes > most_bytes || bytes % page != 0 || (mapped == 0) != (bytes == 0)) return false;
  if (layout.cache) {
    const std::uint64_t bins = f.word(layout.cache), largest = f.word(layout.cache + 8), depth = f.word(layout.cache + 16);
    if (bins == 0 || bins > 76 || largest > (8u << 20) || depth > 65535 || f.word(layout.cache + 24) > (1u << 30)) return false;
  }
  if (layout.huge_page) {
    const std::uint64_t huge = f.word(layout.huge_page);
    if (huge != 0 && !std::has_single_bit(huge)) return false;
  }
  const std::uint64_t base = f.word(layout.sbrk_base);
  if (base == 0) return true;  // only secondary arenas were used so far
  const Mapping* heap = target.mapping_at(base);
  return heap != nullptr && heap->write && heap->inode == 0;  // not aligned where somebody called sbrk before malloc did
}

}  // namespace

std::optional<ArenaRing> find_arenas(const Target& target) {
  for (const Segment& segment : writable_segments(target))
    if (auto ring = search(target, segment)) return ring;
  return std::nullopt;
}

std::optional<Parameters> find_parameters(const Target& target, const ArenaRing& ring) {
  const std::vector<std::uint64_t> words = CopiedRange(target, ring.segment_start, ring.segment_end).words();
  for (const unsigned kind : {2u, 3u, 1u, 0u}) {
    const ParametersLayout& layout = kParametersLayouts[kind];
    if ((kind == 3) != (ring.bins == 24) || (kind == 2 && ring.bins != 112) || (kind == 0 && ring.bins != 104)) continue;
    for (std::size_t i = 0; i + layout.bytes / 8 <= words.size(); i++) {
      const Fields f(&words[i]);
      if (!plausible(target, f, layout, target.page_bytes())) continue;
      Parameters found;
      found.address = ring.segment_start + i * 8;
      found.kind = kind;
      found.trim_threshold = f.word(0);
      found.top_pad = f.word(8);
      found.mmap_threshold = f.word(16);
      found.arena_max = f.word(32);
      found.mapped_count = static_cast<std::uint64_t>(f.number(layout.mapped_count));
      found.mapped_bytes = f.word(layout.mapped_bytes);
      found.sbrk_base = f.word(layout.sbrk_base);
      if (layout.huge_page) {
        found.huge_trim_bytes = f.word(layout.huge_trim);
        found.huge_page_bytes = f.word(layout.huge_page);
      }
      if (layout.cache) {
        found.cache_bins = f.word(layout.cache);
        found.cache_largest = f.word(layout.cache + 8);
        found.cache_depth = f.word(layout.cache + 16);
      }
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace heapspy::heap
