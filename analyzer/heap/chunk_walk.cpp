#include "analyzer/heap/chunk_walk.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/heap/chunk_bits.h"
#include "analyzer/heap/free_lists.h"
#include "analyzer/heap/thread_caches.h"

namespace heapspy::heap {
namespace {

constexpr std::uint64_t kFenceBytes = 16;
constexpr std::size_t kFirstRoom = 4096;  // chunks

std::uint64_t aligned(std::uint64_t address) { return (address + kChunkAlignment - 1) & ~(kChunkAlignment - 1); }

// Tiles one heap.
class Tiler {
 public:
  Tiler(const HeapCopy& copy, std::size_t index, HeapWalk& walk)
      : region_(copy.regions[index]), arena_(copy.arenas[region_.arena]), memory_(region_.memory), walk_(walk) {}

  RegionWalk run() {
    RegionWalk result;
    result.first_chunk = walk_.chunks.size();
    result.first_address = first();
    result.tiled = tile(result.first_address);
    result.end_chunk = walk_.chunks.size();
    return result;
  }

 private:
  // The first heap of an arena begins with heap_info and malloc_state, further ones with heap_info.
  std::uint64_t first() const {
    if (!region_.secondary) return aligned(region_.start);
    const std::uint64_t after = region_.start + walk_.layout.heap_info_bytes;
    return arena_.address == after ? aligned(after + walk_.layout.arena_bytes()) : aligned(after);
  }
  bool readable(std::uint64_t at) const {
    return memory_.contains(at, kChunkHeaderBytes) && at + kChunkHeaderBytes <= region_.end;
  }
  std::uint64_t size_word(std::uint64_t at) const { return memory_.word(at + 8); }

  void add(std::uint64_t at, std::uint64_t bytes, std::uint64_t flags, ChunkKind kind) {
    Chunk chunk;
    chunk.address = at;
    chunk.bytes = bytes;
    chunk.flags = flags;
    chunk.kind = kind;
    // Fourfold: the kernel clears pages for what is copied, and none for room that stays unused.
    if (walk_.chunks.size() == walk_.chunks.capacity()) walk_.chunks.reserve(std::max(kFirstRoom, 4 * walk_.chunks.size()));
    walk_.chunks.push_back(chunk);
  }
  // Only the chunk behind a chunk says whether it is free.
  void settle_previous(std::uint64_t at, std::uint64_t flags) {
    if (flags & kPreviousInUse || walk_.chunks.empty()) return;
    Chunk& previous = walk_.chunks.back();
    if (previous.end() != at || previous.kind != ChunkKind::in_use) return;
    previous.kind = previous.bytes < kSmallestLargeChunk ? ChunkKind::small : ChunkKind::large;
    walk_.free_by_headers[region_.arena]++;
    if (memory_.word(at) != previous.bytes)
      walk_.trouble(at, fmt::format("the free chunk before says {:#x} bytes, its foot {:#x}",
                                    static_cast<std::uint64_t>(previous.bytes), memory_.word(at)));
  }
  bool fail(std::uint64_t at, std::string_view why) {
    walk_.trouble(at, fmt::format("{} (in the heap at {:#x})", why, region_.start));
    return false;
  }

  bool tile(std::uint64_t at) {
    const std::uint64_t top = arena_.top();
    while (readable(at)) {
      const std::uint64_t word = size_word(at), bytes = word & kSizeMask, flags = word & 7;
      settle_previous(at, flags);
      if (at == top) {
        if (bytes < kFenceBytes || bytes % kChunkAlignment || bytes > region_.end - at)
          return fail(at, fmt::format("the top chunk says {:#x} bytes", bytes));
        add(at, bytes, flags, ChunkKind::top);
        // The main heap's mapping may go on with what the program took from brk itself.
        return region_.secondary && at + bytes != region_.end ? fail(at, "the top chunk does not reach the heap's end") : true;
      }
      if (bytes <= kFenceBytes) {
        if (!fence(at, bytes)) return false;
        if (region_.secondary || !resume_behind_foreign(at)) return true;
        continue;
      }
      if (bytes < kMinChunkBytes || bytes % kChunkAlignment || bytes > region_.end - at)
        return fail(at, fmt::format("a chunk says {:#x} bytes", bytes));
      if (region_.secondary != ((flags & kOtherArena) != 0) && kind_shows_arena(at + bytes))
        return fail(at, "a chunk in use says that it is another arena's");
      if (flags & kMapped) return fail(at, "a chunk in a heap says that it is mapped");
      add(at, bytes, flags, ChunkKind::in_use);
      at += bytes;
    }
    if (at == region_.end && !region_.secondary) return true;
    return fail(at, "chunks do not end where the heap does");
  }
  // Free chunks do not carry the arena's bit.
  bool kind_shows_arena(std::uint64_t next) const { return readable(next) && (size_word(next) & kPreviousInUse) != 0; }

  // The end of a heap that malloc has left for another: two headers of 16 (or 16 and 0) bytes. Where the old top was
  // too small to be freed it became a part of them.
  bool fence(std::uint64_t& at, std::uint64_t bytes) {
    if (bytes == 0 && region_.secondary && !walk_.chunks.empty() && walk_.chunks.back().end() == at &&
        walk_.chunks.back().bytes == kMinChunkBytes)
      walk_.chunks.back().kind = ChunkKind::fence;
    const std::uint64_t begin = at;
    while (readable(at) && (size_word(at) & kSizeMask) <= kFenceBytes) {
      const std::uint64_t word = size_word(at);
      if (at == arena_.top() || (word & kMapped)) break;
      if ((word & kSizeMask) == 0 && !region_.secondary) break;
      add(at, kFenceBytes, word & 7, ChunkKind::fence);
      at += kFenceBytes;
    }
    if (region_.secondary && at != region_.end) return fail(at, "a heap's last chunk stands before its end");
    if (!region_.secondary && at - begin < 2 * kFenceBytes) return fail(begin, fmt::format("a chunk says {:#x} bytes", bytes));
    return true;
  }

  // Main heap: behind a fence, memory that the program took, and then malloc's again. It begins where a chain of chunks
  // begins that ends in the top chunk or in another fence.
  bool resume_behind_foreign(std::uint64_t& at) {
    const std::uint64_t top = arena_.top();
    if (top < at || top >= region_.end) {
      if (at < region_.end) add(at, region_.end - at, 0, ChunkKind::foreign);
      return false;
    }
    for (std::uint64_t from = at; from <= top; from += kChunkAlignment) {
      if (!chain_holds(from)) continue;
      if (from > at) add(at, from - at, 0, ChunkKind::foreign);
      at = from;
      return true;
    }
    return false;
  }
  bool chain_holds(std::uint64_t at) const {
    for (std::size_t steps = 0; readable(at); steps++) {
      if (at == arena_.top()) return true;
      const std::uint64_t word = size_word(at), bytes = word & kSizeMask;
      if (bytes == kFenceBytes && steps > 0 && !(word & (kMapped | kOtherArena))) return true;
      if (bytes < kMinChunkBytes || bytes % kChunkAlignment || (word & (kMapped | kOtherArena)) || bytes > region_.end - at)
        return false;
      if (steps == 0 && !(word & kPreviousInUse)) return false;  // nothing of malloc's is before it
      at += bytes;
    }
    return false;
  }

  const HeapRegion& region_;
  const ArenaCopy& arena_;
  const CopiedRange& memory_;
  HeapWalk& walk_;
};

}  // namespace

std::size_t region_at(const HeapCopy& copy, std::uint64_t address) {
  auto above = std::upper_bound(copy.regions.begin(), copy.regions.end(), address,
                                [](std::uint64_t a, const HeapRegion& region) { return a < region.start; });
  if (above == copy.regions.begin()) return copy.regions.size();
  --above;
  return address < above->end ? static_cast<std::size_t>(above - copy.regions.begin()) : copy.regions.size();
}

HeapWalk walk_heaps(const HeapCopy& copy, const GlibcLayout& layout) {
  HeapWalk walk;
  walk.layout = layout;
  walk.free_by_headers.resize(copy.arenas.size());
  walk.listed_in_bins.resize(copy.arenas.size());
  for (std::size_t i = 0; i < copy.regions.size(); i++) walk.regions.push_back(Tiler(copy, i, walk).run());
  ChunkBits bits(copy, walk);
  list_bins(copy, walk, bits);
  list_fast_bins(copy, walk, bits);
  list_thread_caches(copy, walk, bits);
  bits.settle_kinds(walk);
  return walk;
}

}  // namespace heapspy::heap
