#include "thread_registry.h"

#include <sys/mman.h>

#include <atomic>

#include "heapspy/format/decode.h"
#include "recorder.h"
#include "unwind/memoized.h"

namespace heapspy {

using namespace format;

namespace {

// 16 MiB of rings at most, whatever the number of threads; the others go on in their small ones.
constexpr uint32_t kMostWholeRings = 128;

// In the first page of the first staging segment, after its one slot.
constexpr uint32_t kCountersAt = sizeof(ChunkHeader) + sizeof(StagingHeader) + sizeof(SlotHeader);
static_assert(kCountersAt + CounterTable::kFirst * sizeof(ThreadCounters) <= kPageBytes);

// Of threads that no counters could be had for. Nobody reads them.
constinit ThreadCounters uncounted{};

bool has_streams() { return options.mode != Mode::count; }
bool has_counters() { return options.mode == Mode::count || options.mode == Mode::full; }

uint64_t ring_bytes(bool small) { return 8 * (small ? kSmallRingWords : kRingWords); }
uint64_t segment_bytes(uint32_t slots, bool small) { return kPageBytes + slots * ring_bytes(small); }

// Events that words stand for: what is lost is counted in events.
uint64_t count_events(const ThreadState& thread, uint64_t from, uint64_t to) {
  uint64_t events = 0;
  while (from < to) {
    const uint64_t first = thread.slot->words[from % kRingWords] & ~kLapBit;
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

uint64_t ThreadRegistry::first_segment_bytes() const {
  return has_streams() ? segment_bytes(1, true) : CounterTable::first_segment_bytes();
}

bool ThreadRegistry::begin(char* first_segment) {
  first_state_block_ = {nullptr, first_states_, 0, kFirstStates};
  first_slot_block_ = {nullptr, first_slots_, 0, kFirstSlots};
  states_at_ = &first_state_block_;
  slots_at_ = &first_slot_block_;
  if (!has_streams()) return counters_.begin(CounterTable::first_in_segment(first_segment)), true;
  if (!add_slots(first_segment, 1, true)) return false;
  if (has_counters()) {
    auto* staging = reinterpret_cast<StagingHeader*>(first_segment + sizeof(ChunkHeader));
    staging->counters = CounterTable::kFirst;
    staging->counters_at = kCountersAt;
    counters_.begin(reinterpret_cast<ThreadCounters*>(first_segment + kCountersAt));
  }
  return true;
}

// A block more for states or slots. It is wiped in a forked child, which never asks for it again.
template <class Element>
ThreadRegistry::Block<Element>* ThreadRegistry::more(Block<Element>* before) {
  auto* block = static_cast<Block<Element>*>(os::map_anonymous(kBlockBytes));
  if (!block) return nullptr;
  if (os::failed(os::advise(block, kBlockBytes, MADV_WIPEONFORK))) return os::unmap(block, kBlockBytes), nullptr;
  constexpr size_t kElementsAt = align_up(sizeof *block, alignof(Element));
  auto* elements = reinterpret_cast<Element*>(reinterpret_cast<char*>(block) + kElementsAt);
  *block = {before, elements, 0, (kBlockBytes - kElementsAt) / sizeof(Element)};
  return block;
}

ThreadState* ThreadRegistry::unused_state() {
  if (ThreadState* state = free_states_) return free_states_ = state->next_free, state;
  if (states_at_->used == states_at_->room) {
    StateBlock* block = more(states_at_);
    if (!block) return nullptr;
    std::atomic_ref<StateBlock*>(states_at_).store(block, std::memory_order_release);
    state_blocks_++;
  }
  return &states_at_->elements[states_at_->used++];
}

Slot* ThreadRegistry::unused_slot() {
  if (slots_at_->used == slots_at_->room) {
    SlotBlock* block = more(slots_at_);
    if (!block) return nullptr;
    std::atomic_ref<SlotBlock*>(slots_at_).store(block, std::memory_order_release);
    slot_blocks_++;
  }
  return &slots_at_->elements[slots_at_->used++];
}

void ThreadRegistry::SlotList::append(Slot& slot) {
  slot.next = nullptr;
  (last ? last->next : first) = &slot;
  last = &slot;
}

Slot* ThreadRegistry::SlotList::take() {
  Slot* slot = first;
  if (slot && !(first = slot->next)) last = nullptr;
  return slot;
}

bool ThreadRegistry::add_slots(char* segment, uint32_t slots, bool small) {
  auto* staging = reinterpret_cast<StagingHeader*>(segment + sizeof(ChunkHeader));
  staging->slots = slots;
  staging->ring_bytes = static_cast<uint32_t>(ring_bytes(small));
  begin_mapped_chunk(segment, ChunkKind::staging, segment_bytes(slots, small));
  auto* headers = reinterpret_cast<SlotHeader*>(staging + 1);
  (small ? small_slots_ : large_slots_) += slots;
  for (uint32_t i = 0; i < slots; i++) {
    Slot* slot = unused_slot();
    if (!slot) return i > 0;
    *slot = {headers + i, reinterpret_cast<uint64_t*>(segment + kPageBytes + i * ring_bytes(small)), small, 0, nullptr};
    free_[small].append(*slot);
  }
  return true;
}

// Mode ring: all rings together stay within HEAPSPY_RING; an eighth of it is for small ones.
bool ThreadRegistry::may_add(uint32_t slots, bool small) const {
  if (options.mode != Mode::ring) return small || large_slots_ < kMostWholeRings;
  const uint64_t for_small = options.ring_bytes / 8;
  const uint64_t rings = (small ? small_slots_ : large_slots_) + slots;
  return rings * (ring_bytes(small) + kPageBytes) <= (small ? for_small : options.ring_bytes - for_small);
}

// The filled small ring whose words are older than all that the whole ones hold: nobody misses it, so a process whose threads
// come and go needs no more and more of them.
bool ThreadRegistry::has_outlived_small_ring() const {
  return filled_[1].first && filled_[0].first && filled_[1].first->header->filled < filled_[0].first->header->filled;
}

// Segments double, so their number stays small however many threads there are.
Slot* ThreadRegistry::more_slots(bool small) {
  uint32_t more = small ? small_slots_ * 2 : large_slots_;
  if (more < 1) more = 1;
  if (more > kMaxSlots) more = kMaxSlots;
  if (!small && more > 8) more = 8;
  while (more > 1 && !may_add(more, small)) more /= 2;
  if (!may_add(more, small)) return nullptr;
  char* segment = recorder->file.add_segment(segment_bytes(more, small), options.mode == Mode::ring && !small);
  return segment && add_slots(segment, more, small) ? free_[small].take() : nullptr;
}

Slot* ThreadRegistry::free_slot(bool small) {
  if (Slot* slot = free_[small].take()) return slot;
  if (Slot* slot = small && has_outlived_small_ring() ? nullptr : more_slots(small)) return slot;
  Slot* oldest = filled_[small].take();
  if (oldest) {
    std::atomic_ref<uint32_t>(oldest->header->thread).store(0, std::memory_order_release);
    oldest->header->filled = 0;
    if (small) __builtin_memset(oldest->words, 0, kSmallRingWords * 8);
  }
  return oldest;
}

// `thread` last: a reader that sees the owner sees where its words begin.
void ThreadRegistry::attach(ThreadState& thread, Slot& slot) {
  Slot* before = thread.slot;
  const uint64_t place = before ? thread.place() : 0;
  const uint64_t before_position = before ? thread.position() : 0;
  thread.slot = &slot;
  thread.stream_delta = slot.position - place;
  point_at(thread, slot.position);
  slot.header->appended = slot.position;
  slot.header->stream_delta = thread.stream_delta;
  slot.header->lost_events = before ? before->header->lost_events : 0;
  slot.header->first_tick = thread.last_tick;
  slot.header->counted_at = 0;
  slot.header->tid = thread.tid;
  std::atomic_ref<uint32_t>(slot.header->thread).store(thread.id, std::memory_order_release);
  if (before) give_back(*before, before_position);
}

// The thread's next word goes there; before it, the cold path comes.
void ThreadRegistry::point_at(ThreadState& thread, uint64_t position) {
  const uint64_t in_lap = position % kRingWords;
  thread.lap_position = position - in_lap;
  thread.lap = (position / kRingWords & 1) ? 0 : kLapBit;
  thread.next = thread.slot->words + in_lap;
  thread.limit = thread.next;
}

// A small ring holds a part of the first lap only, so its next owner begins at 0, on zeroed words; a whole ring goes on where
// it stands, so that the lap bits of what is left in it are wrong for the next owner.
void ThreadRegistry::give_back(Slot& slot, uint64_t position) {
  slot.position = slot.small ? 0 : position;
  if (options.mode == Mode::ring) {
    slot.header->filled = ++filled_so_far_;
    return filled_[slot.small].append(slot);
  }
  std::atomic_ref<uint32_t>(slot.header->thread).store(0, std::memory_order_release);
  if (slot.small) __builtin_memset(slot.words, 0, position * 8);
  free_[slot.small].append(slot);
}

bool ThreadRegistry::append_up_to(ThreadState& thread, uint64_t end) {
  bool all = true;
  SlotHeader& slot = *thread.slot->header;
  const uint64_t* words = thread.slot->words;
  std::atomic_ref<uint64_t> appended(slot.appended);
  for (uint64_t from; (from = appended.load(std::memory_order_relaxed)) < end;) {
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
    chunk.records = (thread.position() - done) << 48 | (thread.place() - thread.extra_words);
    const bool written = recorder->file.append(chunk, {words + from % kRingWords, first * 8}, {words, rest * 8});
    // Until here the ring is the only whole copy; a kill in between leaves both, and the reader takes one. The same where a
    // collector has written these words meanwhile, or some of them: it has moved `appended` then, and we go on from there.
    uint64_t seen = from;
    if (!appended.compare_exchange_strong(seen, done, std::memory_order_release, std::memory_order_relaxed)) continue;
    slot.first_tick = thread.last_tick;
    if (written) continue;
    all = false;
    std::atomic_ref<uint64_t>(slot.lost_events).fetch_add(count_events(thread, from, done), std::memory_order_relaxed);
  }
  return all;
}

ThreadState* ThreadRegistry::add(uint32_t tid) {
  OwnTime timed;
  Locked locked(lock_);
  if (!free_[1].first) reclaim_gone_threads(false);
  ThreadState* state = unused_state();
  if (!state) return nullptr;
  ThreadState& thread = *state;
  clear(thread);
  thread.tid = tid;
  thread.last_tick = recorder->clock.now();
  Slot* slot = has_streams() ? free_slot(true) : nullptr;
  const uint32_t id = std::atomic_ref<uint32_t>(recorder->file.header().threads).load(std::memory_order_relaxed) + 1;
  if (has_streams() && !slot) return forget(thread), nullptr;
  if (has_counters()) thread.counters = counters_.take(id, tid, thread.last_tick);
  if (has_counters() && !thread.counters) {
    if (!slot) return forget(thread), nullptr;
    thread.counters = &uncounted;
  }
  thread.life = Life::active;
  thread.id = id;
  std::atomic_ref<uint32_t>(recorder->file.header().threads).store(id, std::memory_order_relaxed);
  if (slot) attach(thread, *slot);
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
  if (thread.counters && thread.counters != &uncounted) counters_.ended(thread.counters);
  if (thread.slot) {
    if (options.mode != Mode::ring) append_up_to(thread, thread.position());
    SlotHeader& header = *thread.slot->header;
    // The lost count leaves with the owner; keep it where the reader sums it.
    if (header.lost_events)
      std::atomic_ref<uint64_t>(recorder->file.header().unregistered_lost)
          .fetch_add(header.lost_events, std::memory_order_relaxed);
    header.lost_events = 0;
    give_back(*thread.slot, thread.position());
  }
  if (thread.life == Life::ending) ending_--;
  active_--;
  forget(thread);
}

void ThreadRegistry::clear(ThreadState& thread) {
  unwind::Memoized* const unwinders[] = {thread.unwinder, thread.nested_unwinder};
  thread = {};
  thread.unwinder = unwinders[0];
  thread.nested_unwinder = unwinders[1];
  for (unwind::Memoized* each : unwinders)
    if (each) each->forget();
}

void ThreadRegistry::forget(ThreadState& thread) {
  clear(thread);
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
      ThreadState& thread = block->elements[i];
      const bool alive_once = thread.life == Life::active || thread.life == Life::ending;
      if (alive_once && os::thread_is_gone(process, thread.tid)) retire(thread);
    }
  active_at_last_sweep_ = active_;
}

bool ThreadRegistry::flush(ThreadState& thread) {
  OwnTime timed;
  if (!thread.slot->small) {
    const uint64_t full =
        std::atomic_ref<uint64_t>(thread.slot->header->appended).load(std::memory_order_relaxed) + kAppendWords;
    return append_up_to(thread, full < thread.position() ? full : thread.position());
  }
  const bool all = append_up_to(thread, thread.position());
  Locked locked(lock_);
  if (Slot* whole = free_slot(false))
    attach(thread, *whole);
  else
    restart(thread);
  return all;
}

void ThreadRegistry::leave_ring(ThreadState& thread) {
  OwnTime timed;
  Locked locked(lock_);
  if (Slot* next = free_slot(false))
    attach(thread, *next);
  else
    restart(thread);
}

// No other ring is to be had (disk full, no descriptor; mode ring: every one has a living owner): this one is used over again.
void ThreadRegistry::restart(ThreadState& thread) {
  Slot& slot = *thread.slot;
  const uint64_t place = thread.place();
  const uint64_t position = slot.small ? 0 : thread.position();
  std::atomic_ref<uint32_t>(slot.header->thread).store(0, std::memory_order_release);
  if (slot.small) __builtin_memset(slot.words, 0, kSmallRingWords * 8);
  thread.stream_delta = position - place;
  point_at(thread, position);
  slot.header->appended = position;
  slot.header->stream_delta = thread.stream_delta;
  slot.header->first_tick = thread.last_tick;
  std::atomic_ref<uint32_t>(slot.header->thread).store(thread.id, std::memory_order_release);
}

uint64_t ThreadRegistry::private_bytes() const {
  return (state_blocks_ + slot_blocks_) * kBlockBytes + counters_.private_bytes();
}

}  // namespace heapspy
