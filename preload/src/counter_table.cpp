#include "counter_table.h"

#include <sys/mman.h>

#include "recorder.h"

namespace heapspy {

using namespace format;

namespace {

constexpr uint32_t kMoreSlots = 35;

constexpr uint64_t segment_bytes(uint32_t slots) {
  const uint64_t bytes = sizeof(ChunkHeader) + sizeof(CountersHeader) + slots * sizeof(ThreadCounters);
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}
static_assert(segment_bytes(CounterTable::kFirst) == kPageBytes && segment_bytes(kMoreSlots) == 8 * kPageBytes);

ThreadCounters* begin_segment(char* segment, uint32_t slots) {
  auto* header = reinterpret_cast<CountersHeader*>(segment + sizeof(ChunkHeader));
  header->slots = slots;
  header->slot_bytes = sizeof(ThreadCounters);
  begin_mapped_chunk(segment, ChunkKind::counters, segment_bytes(slots));
  return reinterpret_cast<ThreadCounters*>(header + 1);
}

}  // namespace

uint64_t CounterTable::first_segment_bytes() { return segment_bytes(kFirst); }

ThreadCounters* CounterTable::first_in_segment(char* segment) { return begin_segment(segment, kFirst); }

bool CounterTable::open_book() {
  if (book_) return true;
  auto* book = static_cast<Book*>(os::map_anonymous(sizeof(Book)));
  if (!book) return false;
  if (os::failed(os::advise(book, sizeof(Book), MADV_WIPEONFORK))) return os::unmap(book, sizeof(Book)), false;
  book_ = book;
  return true;
}

void CounterTable::add_segment() {
  if (book_->slots + kMoreSlots > kMost - kFirst) return;
  char* segment = recorder->file.add_segment(segment_bytes(kMoreSlots), false);
  if (!segment) return;
  ThreadCounters* first = begin_segment(segment, kMoreSlots);
  for (uint32_t i = kMoreSlots; i-- > 0;) book_->unused[book_->free++] = first + i;
  book_->slots += kMoreSlots;
}

// The thread that ended longest ago gives its counters up.
void CounterTable::sum_up_oldest() {
  ThreadCounters* oldest = book_->ended[book_->ended_from++ % kMostEnded];
  ThreadCounters*& sum = book_->sum;
  if (!sum) {
    sum = oldest;
    sum->thread = kEndedThreads;
    sum->tid = 0;
    __builtin_memset(sum->name, 0, sizeof sum->name);
    return;
  }
  for (uint32_t i = 0; i < kCalls; i++) sum->calls[i] += oldest->calls[i];
  for (uint32_t i = 0; i < kCountedSizes; i++) {
    sum->allocations[i] += oldest->allocations[i];
    sum->bytes[i] += oldest->bytes[i];
  }
  sum->threads++;
  sum->end_tick = oldest->end_tick;
  __builtin_memset(oldest, 0, sizeof *oldest);
  book_->unused[book_->free++] = oldest;
}

ThreadCounters* CounterTable::unused_slot() {
  if (first_taken_ < kFirst) return first_ + first_taken_++;
  if (!open_book()) return nullptr;
  while (!book_->free && book_->ended_to - book_->ended_from == kMostEnded) sum_up_oldest();
  if (!book_->free) add_segment();
  while (!book_->free && book_->ended_from != book_->ended_to) sum_up_oldest();
  return book_->free ? book_->unused[--book_->free] : nullptr;
}

ThreadCounters* CounterTable::take(uint32_t thread, uint32_t tid, uint64_t tick) {
  ThreadCounters* counters = unused_slot();
  if (!counters) return nullptr;
  counters->tid = tid;
  counters->start_tick = tick;
  counters->threads = 1;
  std::atomic_ref<uint32_t>(counters->thread).store(thread, std::memory_order_release);
  return counters;
}

void CounterTable::ended(ThreadCounters* counters) {
  if (!counters->end_tick) counters->end_tick = recorder->clock.now();
  if (!open_book()) return;
  if (book_->ended_to - book_->ended_from == kMostEnded) sum_up_oldest();
  book_->ended[book_->ended_to++ % kMostEnded] = counters;
}

uint64_t CounterTable::private_bytes() const { return book_ ? 2 * 4096 : 0; }

}  // namespace heapspy
