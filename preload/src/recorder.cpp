#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control.h"
#include "event_writer.h"
#include "next_allocator.h"
#include "process_facts.h"
#include "snapshot.h"
#include "text.h"

namespace heapspy {

using namespace format;

Recorder* recorder = nullptr;
Options options;

namespace {

// The state of every thread before its first event: no room, so that event takes the cold path.
constinit ThreadState unborn_state = stand_in(Life::unborn);

enum class Phase : int { unstarted, starting, recording, off };
std::atomic<Phase> phase{Phase::unstarted};
std::atomic<int> starter{0};

bool rseq_works = false;
pthread_key_t thread_end_key;
bool have_thread_end_key = false;
uint64_t parent_start_realtime_ns = 0;

constexpr uint32_t kWordsPerStamp = 32;
constexpr uint32_t kWordsPerStampWithoutRseq = 8;

// Words between stamps. Without notice of interruptions stamps come four times as often.
uint32_t words_per_stamp(const ThreadState& thread) {
  if (options.clock == Clock::event) return 1;
  return thread.rseq_trusted ? kWordsPerStamp : kWordsPerStampWithoutRseq;
}

void stamp(ThreadState& thread) {
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
  const uint64_t at = claim(thread, 1);
  put(thread, at, encode_stamp(interrupted ? Kind::stamp_off_cpu : Kind::stamp, now));
  thread.limit = at + 1 + spacing;
}

// A record of the cold path itself: the limit does not count.
void put_words(ThreadState& thread, const uint64_t* words, uint32_t count) {
  const uint64_t at = claim(thread, count);
  for (uint32_t i = 0; i < count; i++) put(thread, at + i, words[i] & ~kLapBit);
}

void put_text_record(ThreadState& thread, uint64_t* words, uint32_t head, Kind kind, uint64_t payload, const char* text) {
  const uint32_t count = head + encode_text(text, words + head, kMaxRecordWords - head);
  words[0] = encode_first(kind, count, payload);
  put_words(thread, words, count);
}

void note_name(ThreadState& thread) {
  char name[16];
  os::thread_name(name);
  if (same(name, thread.name)) return;
  __builtin_memcpy(thread.name, name, sizeof name);
  uint64_t words[kMaxRecordWords];
  put_text_record(thread, words, 1, Kind::thread_name, thread.tid, name);
}

// glibc calls this when the thread ends, after C++ thread_local destructors. Frees may still follow (its thread cache, other
// keys' destructors): they are recorded, the ring stays ours until the kernel says that the thread is gone.
void thread_ends(void* state) {
  auto* thread = static_cast<ThreadState*>(state);
  if (tls.state != thread || !recorder || !recorder->alive) return;
  Shut shut;
  os::SignalsBlocked blocked;
  stamp(*thread);
  note_name(*thread);
  const uint64_t word = encode_first(Kind::thread_end, 1, 0);
  put_words(*thread, &word, 1);
  recorder->threads.ending(*thread);
  if (thread->is_main) control::main_thread_ended();
}

ThreadState* register_thread() {
  Recorder& r = *recorder;
  ThreadState* thread = r.threads.add(static_cast<uint32_t>(os::tid()));
  if (!thread) return nullptr;
  thread->rseq_trusted = rseq_works;
  thread->is_main = os::tid() == os::pid();
  tls.no_rseq = off_cpu_notice::armed_value();
  thread->on_cpu = off_cpu_notice::word_of_this_thread();
  off_cpu_notice::arm(thread->on_cpu);
  stamp(*thread);
  os::thread_name(thread->name);
  uint64_t words[kMaxRecordWords];
  words[1] = encode_number(reinterpret_cast<uint64_t>(__builtin_frame_address(0)));
  put_text_record(*thread, words, 2, Kind::thread_start, thread->tid, thread->name);
  return thread;
}

// True where this thread may go on to register itself: the process is recorded, and this is not a forked child that has yet
// to begin.
bool process_is_recorded() {
  for (;;) {
    switch (phase.load(std::memory_order_acquire)) {
      case Phase::off: return false;
      case Phase::starting:
        // Either another thread starts (wait), or this one does and was interrupted by a handler that allocates (pass).
        if (starter.load(std::memory_order_relaxed) == os::tid()) return false;
        os::yield();
        break;
      case Phase::recording:
        if (recorder->alive) return true;
        [[fallthrough]];
      case Phase::unstarted: {
        Phase seen = phase.load(std::memory_order_relaxed);
        if (seen != Phase::unstarted && seen != Phase::recording) break;
        const bool forked = seen == Phase::recording;
        if (!phase.compare_exchange_strong(seen, Phase::starting)) break;
        starter.store(static_cast<int>(os::tid()), std::memory_order_relaxed);
        begin_trace(forked);
        phase.store(recorder && recorder->alive ? Phase::recording : Phase::off, std::memory_order_release);
        break;
      }
    }
  }
}

// What is looked at every 10 milliseconds. True where it was now.
bool upkeep() {
  Recorder& r = *recorder;
  const uint64_t now = r.clock.now();
  uint64_t due = r.next_upkeep_tick.load(std::memory_order_relaxed);
  if (now < due) return false;
  const uint64_t interval = r.clock.kind() == TickKind::tsc4 ? kUpkeepNs * 3 / 4 : kUpkeepNs;  // about 10 ms at 3 GHz
  if (!r.next_upkeep_tick.compare_exchange_strong(due, now + interval, std::memory_order_relaxed)) return false;
  note_clocks();
  snapshot::take_if_due();
  if (!r.helper_runs.load(std::memory_order_relaxed)) control::serve_if_asked();
  return true;
}

void count_lost_event() {
  std::atomic_ref<uint64_t>(recorder->file.header().unregistered_lost).fetch_add(1, std::memory_order_relaxed);
}

constinit ThreadState lost_state = stand_in(Life::lost);

// Registers the calling thread, and begins the process's trace if this is its first event. nullptr: `to_be` says which
// state it has from now on.
ThreadState* first_event_of_thread(ThreadState*& to_be) {
  os::SignalsBlocked blocked;
  if (!process_is_recorded()) return to_be = &never_state, nullptr;
  if (ThreadState* thread = register_thread()) return to_be = thread;
  count_lost_event();
  return to_be = &lost_state, nullptr;
}

void append_full_half(ThreadState& thread) {
  os::SignalsBlocked blocked;
  if (!recorder->threads.flush(thread)) thread.name[0] = 0;  // its start may be among what was lost: say again who it is
  note_name(thread);
}

bool half_is_full(const ThreadState& thread) {
  return thread.position - thread.slot->header->appended >= (thread.slot->small ? kSmallRingWords / 2 : kAppendWords);
}

}  // namespace

constinit ThreadState shut_state = stand_in(Life::shut);
constinit ThreadState guarded_state = stand_in(Life::guarded);
constinit ThreadState own_thread_state = stand_in(Life::guarded);
constinit ThreadState never_state = stand_in(Life::never);
constinit thread_local Tls tls __attribute__((tls_model("initial-exec"))) = {&unborn_state, 0};

ThreadState* make_room() {
  ThreadState* thread = tls.state;
  switch (thread->life) {
    case Life::never:
    case Life::guarded:
    case Life::free: return nullptr;
    case Life::lost:
    case Life::shut:
      if (recorder && recorder->alive) count_lost_event();
      return nullptr;
    case Life::active:
    case Life::ending: {
      bool due;
      {
        Shut shut;
        if (HEAPSPY_UNLIKELY(half_is_full(*thread))) append_full_half(*thread);
        stamp(*thread);
        due = upkeep();
        if (due) stamp(*thread);  // it may have taken its time: the events to come are not from before it
      }
      if (HEAPSPY_UNLIKELY(due)) control::start_helper_if_useful();
      return thread;
    }
    case Life::unborn:
    case Life::forked: break;
  }
  const int error = errno;
  ThreadState* to_be = thread;
  {
    Shut shut;
    thread = first_event_of_thread(to_be);
  }
  tls.state = to_be;
  if (thread) {
    // May allocate: as an event like any other, so not shut.
    if (have_thread_end_key) pthread_setspecific(thread_end_key, thread);
    control::start_helper_if_useful();
  }
  errno = error;
  return thread;
}

void note_thread_name() {
  ThreadState* thread = tls.state;
  if (!has_room(*thread) && !(thread = make_room())) return;
  Shut shut;
  os::SignalsBlocked blocked;
  note_name(*thread);
}

void note_clocks() {
  FileHeader& header = recorder->file.header();
  const ClockPair pair = {recorder->clock.now(), os::clock_ns(CLOCK_MONOTONIC)};
  std::atomic_ref<uint64_t>(header.pairs[1].tick).store(pair.tick, std::memory_order_relaxed);
  std::atomic_ref<uint64_t>(header.pairs[1].monotonic_ns).store(pair.monotonic_ns, std::memory_order_relaxed);
}

void begin_trace(bool forked) {
  if (!forked) {
    resolve_next_allocator();
    process_facts::remember_start();
    message::remember_stderr();
    options = read_options(process_facts::environment(), process_facts::program());
    if (!options.on) return;
    if (!options.follow_children) process_facts::keep_children_quiet(process_facts::environment(), true);
    if (!process_facts::remember_out(options.out)) return;
    rseq_works = off_cpu_notice::set_up();
    control::set_up();
    have_thread_end_key = pthread_key_create(&thread_end_key, thread_ends) == 0;
  } else if (!options.follow_children) {
    return;
  }
  if (!recorder) {
    auto* memory = static_cast<Recorder*>(os::map_anonymous(sizeof(Recorder)));
    if (!memory) return;
    if (os::failed(os::advise(memory, sizeof(Recorder), MADV_WIPEONFORK))) return message::no_fork_protection();
    recorder = memory;
  }
  Recorder& r = *recorder;
  r.clock.start();
  const uint64_t realtime = os::clock_ns(CLOCK_REALTIME);
  const uint64_t monotonic = os::clock_ns(CLOCK_MONOTONIC);
  static char path[kMaxPath];  // one thread at a time comes here; its stack may be small
  process_facts::trace_path(path, sizeof path, realtime);
  TraceFile::Segment first;
  if (!r.file.create(path, kSmallRingWords * 8, &first)) return;
  if (!r.threads.begin(first)) return message::no_fork_protection();
  FileHeader& header = r.file.header();
  header.mode = Mode::full;
  header.clock = options.clock;
  header.tick_kind = r.clock.kind();
  header.machine_page_bytes = 4096;
  header.pid = static_cast<uint32_t>(os::pid());
  header.ppid = static_cast<uint32_t>(os::ppid());
  header.forked = forked;
  header.origin = r.clock.origin();
  header.start_realtime_ns = realtime;
  header.pairs[0] = {0, monotonic};
  header.max_bytes = options.max_bytes;
  header.events_per_stamp = options.clock == Clock::event ? 1 : rseq_works ? kWordsPerStamp : kWordsPerStampWithoutRseq;
  header.parent_start_realtime_ns = forked ? parent_start_realtime_ns : 0;
  parent_start_realtime_ns = realtime;
  r.alive = 1;
  process_facts::append_to(r.file);
  r.next_upkeep_tick.store(r.clock.now() + kUpkeepNs / 2, std::memory_order_relaxed);
  note_clocks();
  message::recording_to(path);
}

void end_trace(End how) {
  if (!recorder || !recorder->alive) return;
  FileHeader& header = recorder->file.header();
  // The child of a vfork shares this memory and calls _exit too.
  if (header.pid != static_cast<uint32_t>(os::pid()) || header.end == static_cast<uint32_t>(how)) return;
  const bool interrupted_ourselves = tls.state->life == Life::shut;  // a signal handler that ends the process
  Shut shut;
  if (!interrupted_ourselves && options.snapshot_at_exit && how == End::exit) snapshot::take(SnapshotReason::exit);
  note_clocks();
  header.end_tick = recorder->clock.now();
  std::atomic_ref<uint32_t>(header.end).store(static_cast<uint32_t>(how), std::memory_order_release);
}

__attribute__((destructor)) static void process_exits() { end_trace(End::exit); }

// Not left to the first event: a program that never allocates is recorded too, and says so if it cannot be.
__attribute__((constructor)) static void process_starts() {
  resolve_next_allocator();
  if (tls.state->life == Life::unborn) make_room();
}

}  // namespace heapspy
