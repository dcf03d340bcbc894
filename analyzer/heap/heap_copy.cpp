#include "analyzer/heap/heap_copy.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/heap/main_mappings.h"
#include "analyzer/heap/mapped_blocks.h"

namespace heapspy::heap {
namespace {

using process::Mapping;
using process::Target;

constexpr std::uint64_t kThreadWindow = 16u << 10;  // libc's variables are among the first of static TLS
constexpr std::uint64_t kLargestHeap = 256ull << 30;
constexpr std::size_t kMostHeaps = 1u << 20;

class Copier {
 public:
  Copier(const Target& target, std::shared_ptr<CopyRoom> room) : target_(target), room_(std::move(room)) {}

  bool run() {
    auto ring = find_arenas(target_);
    if (!ring) return false;
    copy_.ring = std::move(*ring);
    copy_.page_bytes = target_.page_bytes();
    copy_.parameters = find_parameters(target_, copy_.ring);
    copy_arenas();
    for (std::size_t i = 1; i < copy_.arenas.size(); i++) copy_secondary_heaps(i);
    copy_main_heap();
    sort_regions();
    if (!copy_.arenas[0].contiguous())
      for (const AddressRange& piece : find_main_mappings(target_, copy_)) add_region(0, piece.start, piece.end);
    sort_regions();
    copy_.mapped = find_mapped_blocks(target_, copy_);
    copy_threads();
    return true;
  }
  HeapCopy take() { return std::move(copy_); }

 private:
  void problem(std::string text) {
    if (copy_.problems.size() < 20) copy_.problems.push_back(std::move(text));
  }

  void sort_regions() {
    std::sort(copy_.regions.begin(), copy_.regions.end(),
              [](const HeapRegion& a, const HeapRegion& b) { return a.start < b.start; });
  }

  void copy_arenas() {
    constexpr std::uint64_t kTailWords = 5;  // next, next_free, attached_threads, system_mem, max_system_mem
    const std::size_t words = copy_.ring.bins / 8 + static_cast<std::size_t>(kNextFromBins) / 8 + kTailWords;
    std::vector<process::Piece> pieces;
    for (const std::uint64_t address : copy_.ring.arenas) pieces.push_back({address, words * 8});
    std::vector<std::uint64_t> all(words * pieces.size());
    const std::vector<bool> read = target_.read_pieces(pieces, reinterpret_cast<std::byte*>(all.data()));
    for (std::size_t i = 0; i < pieces.size(); i++) {
      if (!read[i]) problem(fmt::format("the arena at {:#x} could not be read", pieces[i].address));
      ArenaCopy arena;
      arena.address = pieces[i].address;
      arena.bins = copy_.ring.bins;
      arena.main = i == 0;
      arena.words.assign(all.begin() + static_cast<std::ptrdiff_t>(i * words),
                         all.begin() + static_cast<std::ptrdiff_t>((i + 1) * words));
      copy_.arenas.push_back(std::move(arena));
    }
  }

  void add_region(std::size_t arena, std::uint64_t start, std::uint64_t end, bool of_brk = false) {
    HeapRegion region{arena, arena != 0, of_brk, start, end, CopiedRange(target_, start, end, room_)};
    copy_.copied_bytes += region.memory.copied_bytes();
    copy_.residency_known = copy_.residency_known && region.memory.residency_known();
    if (region.memory.unreadable_pages())
      problem(fmt::format("{} pages of the heap at {:#x} could not be read", region.memory.unreadable_pages(), start));
    copy_.regions.push_back(std::move(region));
  }

  // From the newest heap, in which `top` is, along `prev`.
  void copy_secondary_heaps(std::size_t index) {
    const ArenaCopy& arena = copy_.arenas[index];
    const std::uint64_t huge = copy_.parameters ? copy_.parameters->huge_page_bytes : 0;
    const std::uint64_t most = huge ? 4 * huge : kHeapRegionBytes;
    std::uint64_t heap = arena.top() & ~(most - 1);
    while (heap != 0 && copy_.regions.size() < kMostHeaps) {
      struct HeapInfo {
        std::uint64_t arena, previous, bytes, writable_bytes;
      };
      const auto info = target_.read_value<HeapInfo>(heap);
      if (!info || info->arena != arena.address || info->bytes < copy_.page_bytes || info->bytes > most || info->bytes % 8) {
        problem(fmt::format("there is no heap of the arena at {:#x} where one should be ({:#x})", arena.address, heap));
        return;
      }
      add_region(index, heap, heap + info->bytes);
      heap = info->previous;
    }
  }

  // What brk gave: from where the first call of sbrk began. Without that (malloc_par was not found) the whole mapping.
  void copy_main_heap() {
    const Mapping* heap = nullptr;
    for (const Mapping& each : target_.mappings())
      if (each.name == "[heap]") {
        heap = &each;
        break;
      }
    const std::uint64_t base = copy_.parameters ? copy_.parameters->sbrk_base : 0;
    if (base != 0) heap = target_.mapping_at(base);
    if (heap == nullptr || (copy_.parameters && base == 0)) return;  // only secondary arenas so far
    // Where brk failed from the beginning, sbrk_base is in memory that was mapped in its place.
    if (!copy_.arenas[0].contiguous() && heap->name != "[heap]") return;
    const std::uint64_t start = base ? base : heap->start;
    // The kernel may show it as several mappings (flags that madvise set).
    std::uint64_t end = heap->end;
    for (const Mapping* more = target_.mapping_at(end); more && more->write && more->anonymous();
         more = target_.mapping_at(end))
      end = more->end;
    add_region(0, start, std::min(end, start + kLargestHeap), true);
  }

  void copy_threads() {
    for (const process::ThreadState& thread : target_.threads()) {
      if (thread.thread_pointer < kThreadWindow) continue;
#if defined(__aarch64__)
      const std::uint64_t start = thread.thread_pointer, end = start + kThreadWindow;
#else
      const std::uint64_t end = thread.thread_pointer, start = end - kThreadWindow;  // static TLS lies below it
#endif
      const Mapping* mapping = target_.mapping_at(thread.thread_pointer - 8);
      if (mapping == nullptr) continue;
      copy_.threads.push_back({thread.tid, thread.thread_pointer,
                               CopiedRange(target_, std::max(start, mapping->start), std::min(end, mapping->end))});
    }
  }

  const Target& target_;
  const std::shared_ptr<CopyRoom> room_;
  HeapCopy copy_;
};

}  // namespace

bool HeapCopy::any_locked() const {
  return std::any_of(arenas.begin(), arenas.end(), [](const ArenaCopy& arena) { return arena.locked(); });
}

std::optional<HeapCopy> copy_heaps(const Target& target, const std::shared_ptr<CopyRoom>& room) {
  Copier copier(target, room);
  if (!copier.run()) return std::nullopt;
  return copier.take();
}

std::uint64_t expected_copy_bytes(const std::vector<Mapping>& smaps) {
  std::uint64_t bytes = 0;
  for (const Mapping& each : smaps)
    if (each.name == "[heap]" ||
        (each.anonymous() && each.write && each.start % kHeapRegionBytes == 0 && each.size_bytes() <= kHeapRegionBytes))
      bytes += (each.rss_bytes + each.swap_bytes) / 64 * 65;  // it may grow until it stands still
  return bytes;
}

}  // namespace heapspy::heap
