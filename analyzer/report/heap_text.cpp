#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/heap/free_chunks.h"
#include "analyzer/report/inspection_text.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

using findings::bytes_text;
using findings::count_text;

constexpr std::size_t kLargestShown = 10;
constexpr std::size_t kMapColumns = 64;

char letter(heap::PageUse use) {
  switch (use) {
    case heap::PageUse::absent: return ' ';
    case heap::PageUse::full: return '#';
    case heap::PageUse::mostly_used: return '3';
    case heap::PageUse::half_used: return '2';
    case heap::PageUse::hardly_used: return '1';
    case heap::PageUse::trimmable: return '-';
    case heap::PageUse::cached: return 'c';
  }
  return '?';
}

}  // namespace

Lines bin_lines(const heap::TakenApart& apart, const Screen& screen) {
  Table bins({"Bins", "bins", "chunks", "bytes", "smallest", "largest"});
  for (const heap::ChunkKind kind :
       {heap::ChunkKind::fast, heap::ChunkKind::unsorted, heap::ChunkKind::small, heap::ChunkKind::large}) {
    heap::BinSum sum;
    std::uint64_t used = 0;
    for (const heap::BinSum& bin : heap::bins_of(apart.copy, apart.walk)) {
      if (bin.kind != kind) continue;
      sum.smallest = used ? std::min(sum.smallest, bin.smallest) : bin.smallest;
      sum.largest = std::max(sum.largest, bin.largest);
      sum.chunks += bin.chunks;
      sum.bytes += bin.bytes;
      used++;
    }
    bins.add({fmt::format("  {}", heap::name(kind)), count_text(used), count_text(sum.chunks), bytes_text(sum.bytes),
              used ? bytes_text(sum.smallest) : "", used ? bytes_text(sum.largest) : ""});
  }
  Lines lines = bins.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  lines.emplace_back();
  Table sizes({"Free chunks by size", "thread caches", "fast bins", "other bins", "bytes"});
  for (const heap::FreeSizes& size : heap::free_sizes(apart.walk))
    sizes.add({fmt::format("  {} to {}", bytes_text(size.from), bytes_text(size.to)), count_text(size.cached),
               count_text(size.fast), count_text(size.binned), bytes_text(size.bytes)});
  Lines more = sizes.lines(kWidth);
  more[0] = heading(more[0], screen);
  lines.insert(lines.end(), more.begin(), more.end());
  lines.emplace_back();
  Table largest({"Largest free", "bytes", "kind"});
  largest.align_left(2);
  for (const heap::Chunk& chunk : heap::largest_free(apart.walk, kLargestShown))
    largest.add({fmt::format("  {:#x}", chunk.address), bytes_text(chunk.bytes), heap::name(chunk.kind)});
  more = largest.lines(kWidth);
  more[0] = heading(more[0], screen);
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

Lines heap_map_lines(const heap::TakenApart& apart, std::uint64_t address, const Screen& screen) {
  const std::size_t index = heap::region_at(apart.copy, address);
  if (index == apart.copy.regions.size()) return {};
  const heap::HeapRegion& region = apart.copy.regions[index];
  const heap::RegionAccount& account = apart.account.regions[index];
  const std::uint64_t page = region.memory.page_bytes();
  Lines lines = {heading(fmt::format("Heap {:#x} of the {} arena, {}, {} resident", region.start,
                                     region.secondary ? fmt::format("{:#x}", apart.copy.arenas[region.arena].address) : "main",
                                     bytes_text(region.end - region.start), bytes_or_unknown(account.resident_bytes)),
                         screen)};
  if (account.plug)
    lines.push_back(fmt::format("  plug: {} of {} at {:#x}; {} free below it", heap::name(account.plug->kind),
                                bytes_text(account.plug->bytes), account.plug->address,
                                bytes_or_unknown(account.plug->free_below_bytes)));
  if (account.pages.empty()) {
    lines.emplace_back("  no map: what of it is resident is not known, or its chunks did not fit together");
    return lines;
  }
  lines.push_back(fmt::format(
      "  a page of {} each: # full, 3 2 1 used by so many quarters or less, - trimmable, c cached, blank not resident",
      bytes_text(page)));
  std::string previous;
  bool skipped = false;
  for (std::size_t row = 0; row < account.pages.size(); row += kMapColumns) {
    std::string drawn;
    for (std::size_t i = row; i < std::min(row + kMapColumns, account.pages.size()); i++) drawn += letter(account.pages[i]);
    const bool last = row + kMapColumns >= account.pages.size();
    if (row && drawn == previous && !last) {  // as hexdump does
      if (!skipped) lines.emplace_back("  *");
      skipped = true;
      continue;
    }
    skipped = false;
    previous = drawn;
    lines.push_back(fmt::format("  {:#14x} |{}|", region.memory.start() + row * page, drawn));
  }
  return lines;
}

void print_chunks(const heap::TakenApart& apart, const InspectionDetail& detail, std::FILE* to) {
  fmt::print(to, "{:<18} {:>14}  {:<18} {}\n", "chunk", "bytes", "kind", "arena");
  for (std::size_t r = 0; r < apart.copy.regions.size(); r++) {
    const heap::HeapRegion& region = apart.copy.regions[r];
    if (detail.heap && (*detail.heap < region.start || *detail.heap >= region.end)) continue;
    const std::string arena = region.secondary ? fmt::format("{:#x}", apart.copy.arenas[region.arena].address) : "main";
    for (std::size_t i = apart.walk.regions[r].first_chunk; i < apart.walk.regions[r].end_chunk; i++) {
      const heap::Chunk& chunk = apart.walk.chunks[i];
      fmt::print(to, "{:<#18x} {:>14}  {:<18} {}\n", chunk.address, static_cast<std::uint64_t>(chunk.bytes),
                 heap::name(chunk.kind), arena);
    }
  }
  for (const heap::MappedBlock& block : apart.copy.mapped)
    if (!detail.heap) fmt::print(to, "{:<#18x} {:>14}  {:<18} -\n", block.chunk, block.end - block.chunk, "mapped");
}

}  // namespace heapspy::report
