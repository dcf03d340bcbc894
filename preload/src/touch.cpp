#include "touch.h"

#include <sys/uio.h>

#include <algorithm>

#include "event_writer.h"
#include "next_allocator.h"
#include "os.h"
#include "pagemap.h"
#include "tagged_payload.h"

namespace heapspy::touch {

using namespace format;

namespace {

constexpr uint64_t kPage = 4096, kWordsOfPage = kPage / 8;
constexpr size_t kPagesAtOnce = 256;  // a byte each, on the program's stack

uint64_t mark_of(uint64_t page) { return (page ^ 0xA5C396E1D2B48779) * 0x9E3779B97F4A7C15; }

// Calls `visit` with each page of [from, to) that is in RAM. False: the kernel does not tell.
template <class Visit>
bool for_each_resident(uint64_t from, uint64_t to, Visit visit) {
  unsigned char in_ram[kPagesAtOnce];
  for (uint64_t at = from; at < to;) {
    const uint64_t bytes = std::min<uint64_t>(to - at, kPagesAtOnce * kPage);
    if (os::failed(os::in_core(at, bytes, in_ram))) return false;
    for (uint64_t i = 0; i < bytes / kPage; i++)
      if (in_ram[i] & 1) visit(reinterpret_cast<volatile uint64_t*>(at + i * kPage));
    at += bytes;
  }
  return true;
}

struct WholePages {
  uint64_t from, to;
};
WholePages whole_pages(void* block, size_t from, size_t to) {
  const auto address = reinterpret_cast<uint64_t>(block);
  const uint64_t first = align_up(address + from, kPage), last = (address + to) & ~(kPage - 1);
  return {first, std::max(first, last)};
}

}  // namespace

void mark_pages(void* block, size_t from) {
  const WholePages pages = whole_pages(block, from, next_allocator.malloc_usable_size(block));
  for_each_resident(pages.from, pages.to, [](volatile uint64_t* page) {
    const uint64_t mark = mark_of(reinterpret_cast<uint64_t>(page));
    page[0] = mark;
    page[kWordsOfPage - 1] = ~mark;
  });
}

size_t tell_pages(void* block) {
  const size_t usable = next_allocator.malloc_usable_size(block);
  if (usable < kLeastBytes) return usable;
  const WholePages pages = whole_pages(block, 0, usable);
  uint64_t touched = 0;
  const bool known = for_each_resident(pages.from, pages.to, [&](const volatile uint64_t* page) {
    const uint64_t mark = mark_of(reinterpret_cast<uint64_t>(page));
    touched += page[0] != mark || page[kWordsOfPage - 1] != ~mark;
  });
  if (!known) return usable;
  const uint64_t words[] = {encode_first(Kind::touched, 2, touched), encode_number(reinterpret_cast<uint64_t>(block))};
  write_words(words, 2);
  return usable;
}

// Read by a system call: another thread may unmap the page meanwhile. Under the snapshot lock.
void append_marked(TaggedPayload& payload, Pagemap& pagemap, uint64_t start, uint64_t end) {
  constexpr size_t kPagesAtATime = 128;
  static iovec remote[2 * kPagesAtATime];
  static uint64_t words[2 * kPagesAtATime];
  const ResidencyRecord record = {start, (end - start) / kPage, Residency::bitmap,
                                  static_cast<uint32_t>(((end - start) / kPage + 63) / 64)};
  if (!payload.append(&record, sizeof record)) return;
  auto* bitmap = reinterpret_cast<uint64_t*>(payload.extend(record.bitmap_words * 8));
  if (!bitmap) return;
  size_t filled = 0;
  const auto look = [&] {
    const long got = os::read_memory_parts(static_cast<int>(os::pid()), words, remote, filled);
    for (size_t i = 0; i + 1 < filled && got >= static_cast<long>((i + 2) * 8); i += 2) {
      const auto page = reinterpret_cast<uint64_t>(remote[i].iov_base);
      if (words[i] != mark_of(page) || words[i + 1] != ~mark_of(page)) continue;
      bitmap[(page - start) / kPage / 64] |= 1ull << ((page - start) / kPage % 64);
    }
    filled = 0;
  };
  pagemap.for_each_run(start / kPage, end / kPage, [&](const Pagemap::Run& run) {
    if (!run.present) return;
    for (uint64_t page = run.first; page < run.end; page++) {
      remote[filled++] = {reinterpret_cast<void*>(page * kPage), 8};
      remote[filled++] = {reinterpret_cast<void*>(page * kPage + kPage - 8), 8};
      if (filled == 2 * kPagesAtATime) look();
    }
  });
  if (filled) look();
}

}  // namespace heapspy::touch
