#include "counter_table.h"

#include "recorder.h"

namespace heapspy {

using namespace format;

namespace {

constexpr uint32_t kFirstSlots = 4, kMoreSlots = 35;

constexpr uint64_t segment_bytes(uint32_t slots) {
  const uint64_t bytes = sizeof(ChunkHeader) + sizeof(CountersHeader) + slots * sizeof(ThreadCounters);
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}
static_assert(segment_bytes(kFirstSlots) == kPageBytes && segment_bytes(kMoreSlots) == 8 * kPageBytes);

}  // namespace

uint64_t CounterTable::first_segment_bytes() { return segment_bytes(kFirstSlots); }

void CounterTable::begin(char* segment) { add_segment(segment, kFirstSlots); }

void CounterTable::add_segment(char* segment, uint32_t slots) {
  auto* header = reinterpret_cast<CountersHeader*>(segment + sizeof(ChunkHeader));
  header->slots = slots;
  header->slot_bytes = sizeof(ThreadCounters);
  begin_mapped_chunk(segment, ChunkKind::counters, segment_bytes(slots));
  auto* first = reinterpret_cast<ThreadCounters*>(header + 1);
  for (uint32_t i = slots; i-- > 0;) unused_[free_++] = first + i;
  slots_ += slots;
}

// The thread that ended longest ago gives its counters up.
ThreadCounters* CounterTable::sum_up_oldest() {
  if (ended_from_ == ended_to_) return nullptr;
  ThreadCounters* oldest = ended_[ended_from_++ % kMostEnded];
  if (!sum_) {
    oldest->thread = kEndedThreads;
    oldest->tid = 0;
    __builtin_memset(oldest->name, 0, sizeof oldest->name);
    sum_ = oldest;
    return nullptr;
  }
  for (uint32_t i = 0; i < kCalls; i++) sum_->calls[i] += oldest->calls[i];
  for (uint32_t i = 0; i < kCountedSizes; i++) {
    sum_->allocations[i] += oldest->allocations[i];
    sum_->bytes[i] += oldest->bytes[i];
  }
  sum_->threads++;
  sum_->end_tick = oldest->end_tick;
  __builtin_memset(oldest, 0, sizeof *oldest);
  return oldest;
}

ThreadCounters* CounterTable::take(uint32_t thread, uint32_t tid, uint64_t tick) {
  while (!free_ && ended_to_ - ended_from_ == kMostEnded)
    if (ThreadCounters* freed = sum_up_oldest()) unused_[free_++] = freed;
  if (!free_ && slots_ + kMoreSlots <= kMost)
    if (char* segment = recorder->file.add_segment(segment_bytes(kMoreSlots), false)) add_segment(segment, kMoreSlots);
  while (!free_ && ended_from_ != ended_to_)
    if (ThreadCounters* freed = sum_up_oldest()) unused_[free_++] = freed;
  if (!free_) return nullptr;
  ThreadCounters* counters = unused_[--free_];
  counters->tid = tid;
  counters->start_tick = tick;
  counters->threads = 1;
  std::atomic_ref<uint32_t>(counters->thread).store(thread, std::memory_order_release);
  return counters;
}

void CounterTable::ended(ThreadCounters* counters) {
  if (!counters->end_tick) counters->end_tick = recorder->clock.now();
  if (ended_to_ - ended_from_ == kMostEnded)
    if (ThreadCounters* freed = sum_up_oldest()) unused_[free_++] = freed;
  ended_[ended_to_++ % kMostEnded] = counters;
}

}  // namespace heapspy
