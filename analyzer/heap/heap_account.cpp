#include "analyzer/heap/heap_account.h"

#include <algorithm>

namespace heapspy::heap {
namespace {

using process::PageState;

// Counts one heap page by page.
class RegionAccountant {
 public:
  RegionAccountant(const HeapCopy& copy, const HeapWalk& walk, std::size_t index)
      : walk_(walk), region_(copy.regions[index]), walked_(walk.regions[index]), memory_(region_.memory), index_(index) {}

  RegionAccount run(std::vector<TrimRange>::const_iterator& range, std::vector<TrimRange>::const_iterator last_range) {
    if (memory_.residency_known()) result_.resident_bytes = resident_pages(0, memory_.pages());
    const bool pages = walked_.tiled && memory_.residency_known();
    if (pages) {
      result_.used.resize(memory_.pages());
      marks_.resize(memory_.pages());
      use(region_.start, walked_.first_address, false);
    }
    for (std::size_t i = walked_.first_chunk; i < walked_.end_chunk; i++) {
      result_.chunks.add(walk_.chunks[i]);
      if (pages) use_chunk(walk_.chunks[i]);
    }
    result_.chunks.headers = walked_.first_address - region_.start;
    if (!walked_.tiled) return std::move(result_);
    for (; range != last_range && range->region == index_; ++range) {
      result_.trimmable_at_most += range->end - range->start;
      if (!pages) continue;
      for (std::size_t page = page_of(range->start); page < page_of(range->end); page++) marks_[page] |= kTrimmable;
    }
    if (pages) count_pages();
    find_plug();
    return std::move(result_);
  }

 private:
  enum : std::uint8_t { kBlock = 1, kTrimmable = 2, kSecondaryTop = 4, kForeign = 8 };

  std::size_t page_of(std::uint64_t address) const { return (address - memory_.start()) / memory_.page_bytes(); }
  std::uint64_t resident_pages(std::size_t from, std::size_t to) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = from; i < to; i++)
      if (memory_.state(i) == PageState::resident) bytes += memory_.page_bytes();
    return bytes;
  }

  void use(std::uint64_t start, std::uint64_t end, bool block) {
    end = std::min(end, memory_.end());
    for (std::uint64_t at = start; at < end;) {
      const std::uint64_t next = std::min(end, (at | (memory_.page_bytes() - 1)) + 1);
      const std::size_t page = page_of(at);
      result_.used[page] += static_cast<std::uint32_t>(next - at);
      if (block) marks_[page] |= kBlock;
      at = next;
    }
  }
  void mark_whole_pages(std::uint64_t start, std::uint64_t end, std::uint8_t mark) {
    const std::uint64_t page = memory_.page_bytes();
    for (std::uint64_t at = (start + page - 1) & ~(page - 1); at + page <= end; at += page) marks_[page_of(at)] |= mark;
  }
  void use_chunk(const Chunk& chunk) {
    switch (chunk.kind) {
      // A block has from its size word on up to the next chunk's: its last 8 bytes are the next chunk's first.
      case ChunkKind::in_use: use(chunk.address + 8, chunk.end() + 8, true); break;
      case ChunkKind::cache_table: use(chunk.address + 8, chunk.end() + 8, false); break;
      case ChunkKind::fence: use(chunk.address, chunk.end(), false); break;
      case ChunkKind::foreign:
        use(chunk.address, chunk.end(), true);
        mark_whole_pages(chunk.address, chunk.end(), kForeign);
        break;
      case ChunkKind::top:
        if (region_.secondary) mark_whole_pages(chunk.address + kChunkHeaderBytes, chunk.end(), kSecondaryTop);
        break;
      default: break;
    }
  }

  void count_pages() {
    const std::uint64_t page = memory_.page_bytes();
    ResidentParts parts;
    result_.pages.resize(memory_.pages(), PageUse::absent);
    std::uint64_t own = 0;
    for (std::size_t i = 0; i < memory_.pages(); i++) {
      if (memory_.state(i) != PageState::resident || marks_[i] & kForeign) continue;
      own += page;
      const std::uint64_t used = std::min<std::uint64_t>(result_.used[i], page);
      PageUse& use = result_.pages[i];
      if (marks_[i] & kBlock) {
        parts.in_use += used;
        parts.pinned += page - used;
        use = used == page           ? PageUse::full
              : used * 4 >= page * 3 ? PageUse::mostly_used
              : used * 4 >= page     ? PageUse::half_used
                                     : PageUse::hardly_used;
      } else if (marks_[i] & kTrimmable) {
        parts.trimmable += page;
        use = PageUse::trimmable;
      } else {
        parts.in_use += used;
        parts.cached += page - used;
        if (marks_[i] & kSecondaryTop) parts.secondary_top += page;
        use = PageUse::cached;
      }
    }
    result_.resident = parts;
    result_.resident_bytes = own;
  }

  void find_plug() {
    for (std::size_t i = walked_.end_chunk; i-- > walked_.first_chunk;) {
      const Chunk& chunk = walk_.chunks[i];
      if (chunk.free() || chunk.kind == ChunkKind::fence) continue;
      if (chunk.kind == ChunkKind::foreign) return;
      result_.plug = Plug{chunk.block(), chunk.bytes, chunk.kind, std::nullopt};
      if (result_.resident) result_.plug->free_below_bytes = free_below(chunk.address);
      return;
    }
  }
  std::uint64_t free_below(std::uint64_t address) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < page_of(address); i++) {
      if (result_.pages[i] == PageUse::absent) continue;
      bytes += result_.pages[i] == PageUse::trimmable
                   ? memory_.page_bytes()
                   : memory_.page_bytes() - std::min<std::uint64_t>(result_.used[i], memory_.page_bytes());
    }
    return bytes;
  }

  const HeapWalk& walk_;
  const HeapRegion& region_;
  const RegionWalk& walked_;
  const CopiedRange& memory_;
  std::size_t index_;
  std::vector<std::uint8_t> marks_;
  RegionAccount result_;
};

void add_known(std::optional<std::uint64_t>& sum, const std::optional<std::uint64_t>& more) {
  sum = sum && more ? std::optional(*sum + *more) : std::nullopt;
}

void add_region(const HeapCopy& copy, const HeapWalk& walk, std::size_t r, const RegionAccount& from, ArenaAccount& to) {
  const HeapRegion& region = copy.regions[r];
  to.heaps++;
  to.tiled = to.tiled && walk.regions[r].tiled;
  for (std::size_t k = 0; k < kChunkKinds; k++) {
    to.chunks.count[k] += from.chunks.count[k];
    to.chunks.bytes[k] += from.chunks.bytes[k];
  }
  to.chunks.headers += from.chunks.headers;
  to.trimmable_at_most += from.trimmable_at_most;
  add_known(to.resident_bytes, from.resident_bytes);
  if (to.resident && from.resident)
    to.resident->add(*from.resident);
  else
    to.resident = std::nullopt;
  const RegionWalk& walked = walk.regions[r];
  const std::uint64_t chunks_end =
      walked.end_chunk > walked.first_chunk ? walk.chunks[walked.end_chunk - 1].end() : region.start;
  to.held_bytes += (region.secondary ? region.end : chunks_end) - region.start;
  const std::uint64_t top = copy.arenas[region.arena].top();
  if (top >= region.start && top < region.end) to.plug = from.plug;
}

}  // namespace

void ResidentParts::add(const ResidentParts& other) {
  in_use += other.in_use;
  pinned += other.pinned;
  trimmable += other.trimmable;
  cached += other.cached;
  secondary_top += other.secondary_top;
}

std::uint64_t ChunkSums::free() const {
  std::uint64_t sum = 0;
  for (std::size_t k = 0; k < kChunkKinds; k++) {
    const auto kind = static_cast<ChunkKind>(k);
    if (kind >= ChunkKind::cached && kind <= ChunkKind::top) sum += bytes[k];
  }
  return sum;
}

HeapAccount account_heaps(const HeapCopy& copy, const HeapWalk& walk) {
  HeapAccount result;
  const std::vector<TrimRange> ranges = predict_trim(copy, walk);
  auto range = ranges.begin();
  result.arenas.resize(copy.arenas.size());
  for (std::size_t a = 0; a < copy.arenas.size(); a++) {
    ArenaAccount& arena = result.arenas[a];
    arena.tiled = true;
    arena.system_bytes = copy.arenas[a].system_bytes(walk.layout);
    arena.resident = ResidentParts{};
    arena.resident_bytes = 0;
  }
  for (std::size_t r = 0; r < copy.regions.size(); r++) {
    result.regions.push_back(RegionAccountant(copy, walk, r).run(range, ranges.end()));
    add_region(copy, walk, r, result.regions.back(), result.arenas[copy.regions[r].arena]);
  }
  result.mapped.resident_bytes = 0;
  for (const MappedBlock& block : copy.mapped) {
    result.mapped.blocks++;
    result.mapped.bytes += block.end - block.start;
    add_known(result.mapped.resident_bytes, block.resident_bytes);
  }
  return result;
}

}  // namespace heapspy::heap
