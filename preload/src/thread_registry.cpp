#include "thread_registry.h"

#include <sys/mman.h>

#include <atomic>

#include "heapspy/format/decode.h"
#include "recorder.h"

namespace heapspy {

using namespace format;

namespace {

// 16 MiB of rings at most, whatever the number of threads; the others go on in their small ones.
constexpr uint32_t kMostWholeRings = 256;

// Events that words stand for: what is lost is counted in events.
uint64_t count_events(const ThreadState& thread, uint64_t from, uint64_t to) {
  uint64_t events = 0;
  while (from < to) {
    const uint64_t first = thread.words[from % kRingWords] & ~kLapBit;
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

bool ThreadRegistry::begin(TraceFile::Segment first) {
  states_at_ = &first_states_;
  slots_at_ = &first_slots_;
  return add_slots(first);
}

// A block more for states or slots. It is wiped in a forked child, which never asks for it again.
template <class Block>
static Block* more(Block* before) {
  auto* block = static_cast<Block*>(os::map_anonymous(sizeof(Block)));
  if (!block) return nullptr;
  if (os::failed(os::advise(block, sizeof(Block), MADV_WIPEONFORK))) return os::unmap(block, sizeof(Block)), nullptr;
  block->before = before;
  return block;
}

ThreadState* ThreadRegistry::unused_state() {
  if (ThreadState* state = free_states_) return free_states_ = state->next_free, state;
  if (states_at_->used == kStatesInBlock) {
    StateBlock* block = more(states_at_);
    if (!block) return nullptr;
    states_at_ = block;
    state_blocks_++;
  }
  return &states_at_->states[states_at_->used++];
}

Slot* ThreadRegistry::unused_slot() {
  if (slots_at_->used == kSlotsInBlock) {
    SlotBlock* block = more(slots_at_);
    if (!block) return nullptr;
    slots_at_ = block;
    slot_blocks_++;
  }
  return &slots_at_->slots[slots_at_->used++];
}

bool ThreadRegistry::add_slots(TraceFile::Segment segment) {
  if (!segment.staging) return false;
  auto* headers = reinterpret_cast<SlotHeader*>(segment.staging + 1);
  const bool small = segment.staging->ring_bytes == kSmallRingWords * 8;
  (small ? small_slots_ : large_slots_) += segment.staging->slots;
  for (uint32_t i = segment.staging->slots; i-- > 0;) {
    Slot* unused = unused_slot();
    if (!unused) return i + 1 < segment.staging->slots;
    Slot& slot = *unused;
    Slot*& list = small ? free_small_ : free_large_;
    slot = {headers + i, reinterpret_cast<uint64_t*>(segment.rings + static_cast<uint64_t>(i) * segment.staging->ring_bytes),
            small, 0, list};
    list = &slot;
  }
  return true;
}

Slot* ThreadRegistry::free_slot(bool small) {
  Slot*& list = small ? free_small_ : free_large_;
  if (!list) {
    // Segments double, so their number stays small however many threads there are.
    uint32_t more = small ? small_slots_ * 2 : large_slots_;
    if (more < 1) more = 1;
    if (more > kMaxSlots) more = kMaxSlots;
    if (!small && more > 16) more = 16;
    if (!small && large_slots_ >= kMostWholeRings) return nullptr;
    if (!add_slots(recorder->file.add_segment(more, static_cast<uint32_t>(8 * (small ? kSmallRingWords : kRingWords)))))
      return nullptr;
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
  slot.header->appended = slot.position;
  slot.header->stream_delta = thread.stream_delta;
  slot.header->lost_events = before ? before->header->lost_events : 0;
  slot.header->first_tick = thread.last_tick;
  slot.header->tid = thread.tid;
  std::atomic_ref<uint32_t>(slot.header->thread).store(thread.id, std::memory_order_release);
  if (before) give_back(*before, before_position);
}

// A small ring holds a part of the first lap only, so its next owner begins at 0, on zeroed words; a whole ring goes on where
// it stands, so that the lap bits of what is left in it are wrong for the next owner.
void ThreadRegistry::give_back(Slot& slot, uint64_t position) {
  std::atomic_ref<uint32_t>(slot.header->thread).store(0, std::memory_order_release);
  if (slot.small) {
    __builtin_memset(slot.words, 0, position * 8);
    position = 0;
  }
  slot.position = position;
  Slot*& list = slot.small ? free_small_ : free_large_;
  slot.next_free = list;
  list = &slot;
}

bool ThreadRegistry::append_up_to(ThreadState& thread, uint64_t end) {
  bool all = true;
  SlotHeader& slot = *thread.slot->header;
  while (slot.appended < end) {
    const uint64_t from = slot.appended;
    const uint64_t to = end - from < kAppendWords ? end : from + kAppendWords;
    // A chunk that wraps has two parts; the first is a multiple of four words, or the chunk ends with it.
    const uint64_t ring_end = (from | (kRingWords - 1)) + 1;
    const uint64_t first = to <= ring_end ? to - from : ring_end - from;
    const uint64_t rest = first % 4 ? 0 : to - from - first;
    ChunkHeader chunk{};
    chunk.kind = ChunkKind::events;
    chunk.thread = thread.id;
    chunk.tid = thread.tid;
    chunk.stream_at = from - thread.stream_delta;
    chunk.first_tick = slot.first_tick;
    const uint64_t done = from + first + rest;
    if (!recorder->file.append(chunk, {&thread.words[from % kRingWords], first * 8}, {thread.words, rest * 8})) {
      all = false;
      std::atomic_ref<uint64_t>(slot.lost_events).fetch_add(count_events(thread, from, done), std::memory_order_relaxed);
    }
    // Until here the ring is the only whole copy; a kill in between leaves both, and the reader takes one.
    slot.first_tick = thread.last_tick;
    std::atomic_ref<uint64_t>(slot.appended).store(done, std::memory_order_release);
  }
  return all;
}

ThreadState* ThreadRegistry::add(uint32_t tid) {
  Locked locked(lock_);
  if (!free_small_) reclaim_gone_threads(false);
  ThreadState* state = unused_state();
  if (!state) return nullptr;
  ThreadState& thread = *state;
  thread = {};
  Slot* slot = free_slot(true);
  if (!slot) return forget(thread), nullptr;
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
  SlotHeader& header = *thread.slot->header;
  // The lost count leaves with the owner; keep it where the reader sums it.
  if (header.lost_events)
    std::atomic_ref<uint64_t>(recorder->file.header().unregistered_lost)
        .fetch_add(header.lost_events, std::memory_order_relaxed);
  header.lost_events = 0;
  give_back(*thread.slot, thread.position);
  if (thread.life == Life::ending) ending_--;
  active_--;
  forget(thread);
}

void ThreadRegistry::forget(ThreadState& thread) {
  thread = {};
  thread.life = Life::free;
  thread.next_free = free_states_;
  free_states_ = &thread;
}

// Asks the kernel thread by thread. Only when it promises something, so that the cost per new thread stays constant: when a
// quarter is known to be ending, or when threads that never said so (killed, or without destructors) may have piled up.
void ThreadRegistry::reclaim_gone_threads(bool all) {
  const bool promising = all || (ending_ && ending_ * 4 >= active_) || active_ >= 2 * active_at_last_sweep_ + 8;
  if (!promising) return;
  const auto process = static_cast<uint32_t>(os::pid());
  for (StateBlock* block = states_at_; block; block = block->before)
    for (uint32_t i = 0; i < block->used; i++) {
      ThreadState& thread = block->states[i];
      const bool alive_once = thread.life == Life::active || thread.life == Life::ending;
      if (alive_once && os::thread_is_gone(process, thread.tid)) retire(thread);
    }
  active_at_last_sweep_ = active_;
}

bool ThreadRegistry::flush(ThreadState& thread) {
  if (!thread.slot->small) return append_up_to(thread, thread.slot->header->appended + kAppendWords);
  const bool all = append_up_to(thread, thread.position);
  Locked locked(lock_);
  if (Slot* whole = free_slot(false))
    attach(thread, *whole);
  else
    restart(thread);
  return all;
}

// No whole ring is to be had (disk full, no descriptor): the small one is used over and over.
void ThreadRegistry::restart(ThreadState& thread) {
  Slot& slot = *thread.slot;
  const uint64_t place = thread.position - thread.stream_delta;
  std::atomic_ref<uint32_t>(slot.header->thread).store(0, std::memory_order_release);
  __builtin_memset(slot.words, 0, kSmallRingWords * 8);
  thread.position = 0;
  thread.stream_delta = 0 - place;
  slot.header->appended = 0;
  slot.header->stream_delta = thread.stream_delta;
  std::atomic_ref<uint32_t>(slot.header->thread).store(thread.id, std::memory_order_release);
}

uint64_t ThreadRegistry::private_bytes() const { return state_blocks_ * sizeof(StateBlock) + slot_blocks_ * sizeof(SlotBlock); }

}  // namespace heapspy
