#include "thread_registry.h"

#include <sys/mman.h>

#include <atomic>

#include "heapspy/format/decode.h"
#include "recorder.h"

namespace heapspy {

using namespace format;

namespace {

// Most threads make few events: they never leave the small ring. A thread that fills half of it gets the large one, which
// makes an append (open, write, close) worth its while.
constexpr uint32_t kSmallRingBytes = 16 << 10;
constexpr uint32_t kLargeRingBytes = 64 << 10;

// Events that words stand for: what is lost is counted in events.
uint64_t count_events(const ThreadState& thread, uint64_t from, uint64_t to) {
  uint64_t events = 0;
  while (from < to) {
    const uint64_t first = thread.words[from & thread.mask] & ~kLapBit;
    const uint32_t words = record_words(first);
    if (const auto operation = static_cast<Operation>(first & 7); operation != Operation::escape) {
      events += operation != Operation::realloc_begin;
    } else {
      switch (static_cast<Kind>(first >> kKindShift & 31)) {
        case Kind::allocation:
        case Kind::release:
        case Kind::realloc_end:
        case Kind::failed:
        case Kind::realloc_failed:
        case Kind::realloc_freed: events++; break;
        default: break;
      }
    }
    from += words ? words : 1;
  }
  return events;
}

}  // namespace

struct ThreadRegistry::Memory {
  ThreadState states[kMaxThreads];
  Slot slots[2 * kMaxThreads];
};

bool ThreadRegistry::begin(TraceFile::Segment first) {
  memory_ = static_cast<Memory*>(os::map_anonymous(sizeof(Memory)));
  if (!memory_) return false;
  if (os::failed(os::advise(memory_, sizeof(Memory), MADV_WIPEONFORK))) return false;
  return add_slots(first);
}

bool ThreadRegistry::add_slots(TraceFile::Segment segment) {
  if (!segment.staging || slots_ + segment.staging->slots > 2 * kMaxThreads) return false;
  auto* headers = reinterpret_cast<SlotHeader*>(segment.staging + 1);
  const bool small = segment.staging->ring_bytes == kSmallRingBytes;
  (small ? small_slots_ : large_slots_) += segment.staging->slots;
  for (uint32_t i = segment.staging->slots; i-- > 0;) {
    Slot& slot = memory_->slots[slots_++];
    Slot*& list = small ? free_small_ : free_large_;
    slot = {headers + i, reinterpret_cast<uint64_t*>(segment.rings + static_cast<uint64_t>(i) * segment.staging->ring_bytes),
            segment.staging->ring_bytes / 8, 0, list};
    list = &slot;
  }
  return true;
}

Slot* ThreadRegistry::free_slot(uint64_t ring_words) {
  const bool small = ring_words * 8 == kSmallRingBytes;
  Slot*& list = small ? free_small_ : free_large_;
  if (!list) {
    // Segments double, so their number stays small however many threads there are.
    uint32_t more = small ? small_slots_ * 2 : large_slots_;
    if (more < 1) more = 1;
    if (more > kMaxSlots) more = kMaxSlots;
    if (!small && more > 16) more = 16;
    if (!add_slots(recorder->file.add_segment(more, small ? kSmallRingBytes : kLargeRingBytes))) return nullptr;
  }
  Slot* slot = list;
  list = slot->next_free;
  return slot;
}

// `thread` last: a reader that sees the owner sees where its words begin.
void ThreadRegistry::attach(ThreadState& thread, Slot& slot) {
  const uint64_t place = thread.slot ? thread.position - thread.stream_delta : 0;
  Slot* before = thread.slot;
  const uint64_t before_position = thread.position;
  thread.slot = &slot;
  thread.position = slot.position;
  thread.stream_delta = slot.position - place;
  thread.words = slot.words;
  thread.mask = slot.ring_words - 1;
  thread.lap_shift = static_cast<uint32_t>(__builtin_ctzll(slot.ring_words));
  slot.header->appended = slot.position;
  slot.header->stream_delta = thread.stream_delta;
  slot.header->lost_events = before ? before->header->lost_events : 0;
  slot.header->first_tick = thread.last_tick;
  slot.header->tid = thread.tid;
  std::atomic_ref<uint32_t>(slot.header->thread).store(thread.id, std::memory_order_release);
  if (!before) return;
  before->position = before_position;
  std::atomic_ref<uint32_t>(before->header->thread).store(0, std::memory_order_release);
  Slot*& list = before->ring_words * 8 == kSmallRingBytes ? free_small_ : free_large_;
  before->next_free = list;
  list = before;
}

void ThreadRegistry::append_up_to(ThreadState& thread, uint64_t end) {
  SlotHeader& slot = *thread.slot->header;
  while (slot.appended < end) {
    const uint64_t from = slot.appended;
    const uint64_t ring_end = (from | thread.mask) + 1;  // a chunk is one run of the ring
    const uint64_t to = end < ring_end ? end : ring_end;
    ChunkHeader chunk{};
    chunk.kind = ChunkKind::events;
    chunk.thread = thread.id;
    chunk.tid = thread.tid;
    chunk.stream_at = from - thread.stream_delta;
    chunk.first_tick = slot.first_tick;
    if (!recorder->file.append(chunk, &thread.words[from & thread.mask], (to - from) * 8))
      std::atomic_ref<uint64_t>(slot.lost_events).fetch_add(count_events(thread, from, to), std::memory_order_relaxed);
    // Until here the ring is the only whole copy; a kill in between leaves both, and the reader takes one.
    slot.first_tick = thread.last_tick;
    std::atomic_ref<uint64_t>(slot.appended).store(to, std::memory_order_release);
  }
}

ThreadState* ThreadRegistry::add(uint32_t tid) {
  Locked locked(lock_);
  if (!free_small_) reclaim_gone_threads(false);
  uint32_t index;
  if (free_state_) {
    index = free_state_ - 1;
    free_state_ = memory_->states[index].id;
  } else {
    if (states_ == kMaxThreads) return nullptr;
    index = states_++;
  }
  ThreadState& thread = memory_->states[index];
  thread = {};
  Slot* slot = free_slot(kSmallRingBytes / 8);
  if (!slot) {
    thread.id = free_state_;
    free_state_ = index + 1;
    return nullptr;
  }
  thread.life = Life::active;
  thread.id = std::atomic_ref<uint32_t>(recorder->file.header().threads).fetch_add(1, std::memory_order_relaxed) + 1;
  thread.tid = tid;
  thread.last_tick = recorder->clock.now();
  attach(thread, *slot);
  active_++;
  return &thread;
}

void ThreadRegistry::ending(ThreadState& thread) {
  Locked locked(lock_);
  if (thread.life != Life::active) return;
  thread.life = Life::ending;
  ending_++;
}

// The thread is gone: nobody else writes its state or ring.
void ThreadRegistry::retire(ThreadState& thread) {
  append_up_to(thread, thread.position);
  Slot* slot = thread.slot;
  slot->position = thread.position;
  // The lost count leaves with the owner; keep it where the reader sums it.
  if (slot->header->lost_events)
    std::atomic_ref<uint64_t>(recorder->file.header().unregistered_lost)
        .fetch_add(slot->header->lost_events, std::memory_order_relaxed);
  slot->header->lost_events = 0;
  std::atomic_ref<uint32_t>(slot->header->thread).store(0, std::memory_order_release);
  Slot*& list = slot->ring_words * 8 == kSmallRingBytes ? free_small_ : free_large_;
  slot->next_free = list;
  list = slot;
  if (thread.life == Life::ending) ending_--;
  active_--;
  thread = {};
  thread.life = Life::unborn;
  thread.id = free_state_;
  free_state_ = static_cast<uint32_t>(&thread - memory_->states) + 1;
}

// Asks the kernel thread by thread. Only when it promises something, so that the cost per new thread stays constant: when a
// quarter is known to be ending, or when threads that never said so (killed, or without destructors) may have piled up.
void ThreadRegistry::reclaim_gone_threads(bool all) {
  const bool promising = all || (ending_ && ending_ * 4 >= active_) || active_ >= 2 * active_at_last_sweep_ + 8;
  if (!promising) return;
  const auto process = static_cast<uint32_t>(os::pid());
  for (uint32_t i = 0; i < states_; i++) {
    ThreadState& thread = memory_->states[i];
    if ((thread.life == Life::active || thread.life == Life::ending) && os::thread_is_gone(process, thread.tid)) retire(thread);
  }
  active_at_last_sweep_ = active_;
}

void ThreadRegistry::flush(ThreadState& thread) {
  const uint64_t ring_words = thread.mask + 1;
  const uint64_t half = ring_words / 2;
  const uint64_t end = thread.position - thread.position % half;
  append_up_to(thread, end);
  if (ring_words * 8 != kSmallRingBytes) return;
  append_up_to(thread, thread.position);
  Locked locked(lock_);
  if (Slot* large = free_slot(kLargeRingBytes / 8)) attach(thread, *large);
}

uint64_t ThreadRegistry::private_bytes() const {
  return align_up(states_ * sizeof(ThreadState), 4096) + align_up(slots_ * sizeof(Slot), 4096);
}

}  // namespace heapspy
