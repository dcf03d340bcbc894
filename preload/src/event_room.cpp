#include "event_room.h"

#include "control.h"
#include "event_writer.h"
#include "recorder.h"
#include "thread_life.h"

namespace heapspy {

using namespace format;

namespace event_room {
namespace {

bool rseq_works_ = false;

constexpr uint32_t kWordsPerStamp = 32;
constexpr uint32_t kWordsPerStampWithoutRseq = 8;
// Where a collector empties the rings the thread appends only what it left for too long: it may be late, or dead.
constexpr uint64_t kLateWords = kRingWords - 4 * kSpareWords;
static_assert(kLateWords > kAppendWords);

// Words between stamps. Without notice of interruptions stamps come four times as often; samples are rare, so each gets one.
uint32_t words_per_stamp(const ThreadState& thread) {
  if (options.clock == Clock::event || options.mode == Mode::sample) return 1;
  return thread.rseq_trusted ? kWordsPerStamp : kWordsPerStampWithoutRseq;
}

uint64_t* lap_end(const ThreadState& thread) {
  return thread.slot->words + (thread.slot->small ? kSmallRingWords : kRingWords);
}

// The rest of the lap becomes one record that says nothing, and the next lap begins.
void begin_next_lap(ThreadState& thread) {
  const auto rest = static_cast<uint32_t>(lap_end(thread) - thread.next);
  if (rest) {
    uint64_t* at = claim(thread, rest);
    put(thread, at, encode_first(Kind::padding, rest, 0));
    for (uint32_t i = 1; i < rest; i++) put(thread, at + i, 0);
    thread.extra_words += rest - 1;
  }
  thread.lap ^= kLapBit;
  thread.lap_position += kRingWords;
  thread.next = thread.slot->words;
}

// False: the program has entered a sandbox meanwhile, and nothing may be asked of the kernel. The words stay where they are.
bool append_full_ring(ThreadState& thread) {
  os::SignalsBlocked blocked;
  if (std::atomic_ref<bool>(recorder->at_rest).load()) return false;
  if (!recorder->threads.flush(thread)) thread.name[0] = 0;  // its start may be among what was lost: say again who it is
  note_name(thread);
  return true;
}

// Mode ring: the thread's words stay where they are, the oldest ring of all is the next to be written.
bool leave_full_ring(ThreadState& thread) {
  os::SignalsBlocked blocked;
  if (std::atomic_ref<bool>(recorder->at_rest).load()) return false;
  recorder->threads.leave_ring(thread);
  stamp(thread);
  say_who(thread);
  return true;
}

// What is in the ring and not in the file.
uint64_t staged_words(const ThreadState& thread) {
  return thread.position() - std::atomic_ref<uint64_t>(thread.slot->header->appended).load(std::memory_order_relaxed);
}

}  // namespace

void set_up() { rseq_works_ = off_cpu_notice::set_up(); }
bool rseq_works() { return rseq_works_; }

uint32_t usual_words_per_stamp() {
  return options.clock == Clock::event ? 1 : rseq_works_ ? kWordsPerStamp : kWordsPerStampWithoutRseq;
}

void put_words(ThreadState& thread, const uint64_t* words, uint32_t count) {
  thread.extra_words += count - 1;
  uint64_t* at = claim(thread, count);
  for (uint32_t i = 0; i < count; i++) put(thread, at + i, words[i] & ~kLapBit);
}

uint64_t stamp(ThreadState& thread) {
  const bool interrupted = !off_cpu_notice::stayed_on_cpu(thread.on_cpu);
  // Armed before the clock is read: an interruption between the two must not go unnoticed.
  off_cpu_notice::arm(thread.on_cpu);
  uint64_t now = recorder->clock.now();
  if (now < thread.last_tick) now = thread.last_tick;
  // A second between two stamps without one interruption: does the kernel still tell? (A hundred of them: no.)
  constexpr uint64_t kLong = 500000000;  // ticks: about a second, whatever the clock
  if (thread.rseq_trusted) {
    if (!interrupted && now - thread.last_tick > kLong)
      thread.rseq_trusted = ++thread.unproven_stamps < 2;
    else if (interrupted)
      thread.unproven_stamps = 0;
  }
  uint32_t spacing = words_per_stamp(thread);
  // Where events are sparse and nothing tells of interruptions, each gets its time.
  if (!thread.rseq_trusted && now - thread.last_tick > 20000) spacing = 1;
  thread.last_tick = now;
  thread.stacks_forgotten = true;
  uint64_t* at = claim(thread, 1);
  put(thread, at, encode_stamp(interrupted ? Kind::stamp_off_cpu : Kind::stamp, now));
  uint64_t* const lap_limit = lap_end(thread) - kSpareWords;
  thread.limit = at + 1 + spacing < lap_limit ? at + 1 + spacing : lap_limit;
  return now;
}

uint64_t make(ThreadState& thread) {
  const bool ring_mode = options.mode == Mode::ring;
  const bool at_lap_end = lap_end(thread) - thread.next <= static_cast<ptrdiff_t>(kSpareWords);
  if (HEAPSPY_UNLIKELY(at_lap_end)) {
    if (!thread.slot->small)
      begin_next_lap(thread);
    else if (!(ring_mode ? leave_full_ring(thread) : append_full_ring(thread)))
      return kNoRoom;
  }
  if (ring_mode) {
    if (HEAPSPY_UNLIKELY(staged_words(thread) >= kRingWords - 2 * kSpareWords) && !leave_full_ring(thread)) return kNoRoom;
  } else if (const uint64_t staged = staged_words(thread); HEAPSPY_UNLIKELY(staged >= kAppendWords)) {
    const bool mine = staged >= kLateWords || !recorder->has_collector.load(std::memory_order_relaxed);
    if (mine && !append_full_ring(thread)) return kNoRoom;
  }
  return stamp(thread);
}

}  // namespace event_room

ThreadState* make_room(bool in_free) {
  ThreadState* thread = tls.state;
  if (HEAPSPY_UNLIKELY(thread->life != Life::active)) {
    bool fresh = false;
    thread = thread_of_event(&fresh, in_free);
    if (!thread || fresh) return thread && !thread->slot ? nullptr : thread;
  }
  if (HEAPSPY_UNLIKELY(!thread->slot)) return nullptr;
  bool upkeep_was_due;
  {
    Shut shut;
    const uint64_t now = event_room::make(*thread);
    if (HEAPSPY_UNLIKELY(now == event_room::kNoRoom)) return nullptr;
    upkeep_was_due = upkeep_if_due(now);
    if (HEAPSPY_UNLIKELY(upkeep_was_due)) event_room::stamp(*thread);  // it may have taken its time
  }
  if (HEAPSPY_UNLIKELY(upkeep_was_due) && !in_free) control::start_helper_if_useful();
  return thread;
}

}  // namespace heapspy
