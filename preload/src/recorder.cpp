#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control.h"
#include "entry_table.h"
#include "event_room.h"
#include "next_allocator.h"
#include "process_facts.h"
#include "snapshot.h"
#include "text.h"
#include "thread_life.h"
#include "unwind/capture.h"

namespace heapspy {

using namespace format;

Recorder* recorder = nullptr;
Options options;

namespace {

enum class Phase : int { unstarted, starting, recording, off };
std::atomic<Phase> phase{Phase::unstarted};
std::atomic<int> starter{0};

pthread_key_t thread_end_key;
bool have_thread_end_key = false;
uint64_t parent_start_realtime_ns = 0;

bool begin_trace(bool forked);

}  // namespace

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
        if (forked) os::forget_other_threads();
        starter.store(static_cast<int>(os::tid()), std::memory_order_relaxed);
        const bool begun = begin_trace(forked);
        begun ? enter_mode(options.mode, options.stacks) : enter_no_mode();
        phase.store(begun ? Phase::recording : Phase::off, std::memory_order_release);
        break;
      }
    }
  }
}

bool start_of_process() {
  resolve_next_allocator();
  const Phase seen = phase.load(std::memory_order_acquire);
  if (seen == Phase::recording || seen == Phase::off) return true;
  if (seen == Phase::starting && starter.load(std::memory_order_relaxed) == os::tid()) return false;
  const int error = errno;
  {
    Shut shut;
    os::SignalsBlocked blocked;
    process_is_recorded();
  }
  errno = error;
  return true;
}

void note_end_of_thread(ThreadState* thread) {
  if (have_thread_end_key) pthread_setspecific(thread_end_key, thread);
}

// What is looked at every 10 milliseconds.
bool upkeep_if_due(uint64_t now) {
  Recorder& r = *recorder;
  uint64_t due = r.next_upkeep_tick.load(std::memory_order_relaxed);
  if (now < due) return false;
  const uint64_t interval = r.clock.kind() == TickKind::tsc4 ? kUpkeepNs * 3 / 4 : kUpkeepNs;  // about 10 ms at 3 GHz
  if (!r.next_upkeep_tick.compare_exchange_strong(due, now + interval, std::memory_order_relaxed)) return false;
  note_clocks();
  r.has_collector.store(std::atomic_ref<uint32_t>(r.file.header().collector).load(std::memory_order_relaxed) != 0,
                        std::memory_order_relaxed);
  snapshot::take_if_due();
  if (options.trigger.any() && options.mode == Mode::ring) trigger::freeze_if_due();
  if (!r.helper_runs.load(std::memory_order_relaxed)) control::serve_if_asked();
  return true;
}

void note_clocks() {
  FileHeader& header = recorder->file.header();
  const ClockPair pair = {recorder->clock.now(), os::clock_ns(CLOCK_MONOTONIC)};
  std::atomic_ref<uint64_t>(header.pairs[1].tick).store(pair.tick, std::memory_order_relaxed);
  std::atomic_ref<uint64_t>(header.pairs[1].monotonic_ns).store(pair.monotonic_ns, std::memory_order_relaxed);
}

namespace {

bool read_settings() {
  if (!libc_is_glibc()) return false;
  process_facts::remember_start();
  message::remember_stderr();
  options = read_options(process_facts::environment(), process_facts::program);
  if (!options.on) return false;
  if (!options.follow_children) process_facts::keep_children_quiet(process_facts::environment(), true);
  if (!process_facts::remember_out(options.out)) return false;
  event_room::set_up();
  if (options.mode == Mode::count)
    options.stacks = Stacks::none;
  else
    unwind::set_up();
  control::set_up();
  if (options.mode == Mode::ring)
    trigger::set_up(options.trigger);
  else if (options.trigger.any())
    message::trigger_without_ring();
  have_thread_end_key = pthread_key_create(&thread_end_key, thread_ends) == 0;
  return true;
}

// Begins the trace of this process (the first event of it, or of a forked child). False: it is not recorded.
bool begin_trace(bool forked) {
  if (!forked) pass_on_while_beginning();
  if (forked ? !options.follow_children : !read_settings()) return false;
  if (!recorder) {
    auto* memory = static_cast<Recorder*>(os::map_anonymous(sizeof(Recorder)));
    if (!memory) return false;
    if (os::failed(os::advise(memory, sizeof(Recorder), MADV_WIPEONFORK))) return message::no_fork_protection(), false;
    recorder = memory;
  }
  control::process_begins(forked);
  Recorder& r = *recorder;
  r.clock.start();
  const uint64_t realtime = os::clock_ns(CLOCK_REALTIME);
  const uint64_t monotonic = os::clock_ns(CLOCK_MONOTONIC);
  process_facts::trace_path(r.file.path_room(), kMaxPath, realtime);
  const bool stacks = options.stacks != Stacks::none;
  const uint64_t rings = r.threads.first_segment_bytes();
  if (!r.file.create(rings + (stacks ? StackTable::kFirstSegmentBytes : 0))) return false;
  if (!r.threads.begin(r.file.first_segment())) return message::no_fork_protection(), false;
  if (stacks) r.stacks.begin(r.file.first_segment() + rings);
  FileHeader& header = r.file.header();
  header.mode = options.mode;
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
  header.events_per_stamp = event_room::usual_words_per_stamp();
  header.parent_start_realtime_ns = forked ? parent_start_realtime_ns : 0;
  if (options.mode == Mode::sample) header.sample_bytes = options.sample_bytes;
  if (options.mode == Mode::ring) header.ring_bytes = options.ring_bytes;
  header.stacks = options.stacks;
  header.stack_depth = stacks ? options.stack_depth : 0;
  parent_start_realtime_ns = realtime;
  r.alive = 1;
  process_facts::begin(r.file);
  header.recorder_ticks = r.clock.now();
  r.next_upkeep_tick.store(header.recorder_ticks + kUpkeepNs / 2, std::memory_order_relaxed);
  note_clocks();
  message::recording_to(r.file.path());
  return true;
}

}  // namespace

bool go_to_rest() {
  if (!recorder || !recorder->alive || recorder->file.header().pid != static_cast<uint32_t>(os::pid())) return false;
  Shut shut;
  Recorder& r = *recorder;
  enter_no_mode();
  phase.store(Phase::off, std::memory_order_release);
  control::end_helper();
  // Whoever writes to the file now is let finish.
  if (r.snapshot_lock.lock_within(1000)) r.snapshot_lock.unlock();
  note_clocks();
  // Before the others find that they can append no more: that is why.
  uint32_t none = 0;
  std::atomic_ref<uint32_t>(r.file.header().stop).compare_exchange_strong(none, static_cast<uint32_t>(Stop::sandbox));
  std::atomic_ref<bool>(r.at_rest).store(true);
  r.alive = 0;
  os::rest_for_ever();
  return true;
}

void wake_up() {
  Recorder& r = *recorder;
  uint32_t sandbox = static_cast<uint32_t>(Stop::sandbox);
  std::atomic_ref<uint32_t>(r.file.header().stop).compare_exchange_strong(sandbox, 0);
  os::wake_up();
  r.at_rest = false;
  r.alive = 1;
  r.helper_asked_for.store(false, std::memory_order_relaxed);
  phase.store(Phase::recording, std::memory_order_release);
  if (!r.paused) enter_mode(options.mode, options.stacks);
}

void end_trace(End how) {
  if (recorder && recorder->at_rest) {  // not even the process id may be asked for; a child has no such memory
    FileHeader& header = recorder->file.header();
    if (recorder->clock.kind() == TickKind::tsc4) header.end_tick = recorder->clock.now();
    std::atomic_ref<uint32_t>(header.end).store(static_cast<uint32_t>(how), std::memory_order_release);
    return;
  }
  if (!recorder || !recorder->alive) return;
  FileHeader& header = recorder->file.header();
  // The child of a vfork shares this memory and calls _exit too.
  if (header.pid != static_cast<uint32_t>(os::pid()) || header.end == static_cast<uint32_t>(how)) return;
  const bool interrupted_ourselves = tls.state->life == Life::shut;  // a signal handler that ends the process
  Shut shut;
  if (!interrupted_ourselves && options.snapshot_at_exit && how == End::exit) snapshot::take(SnapshotReason::exit);
  // A copy of the rings that the helper is writing is worth a wait: the process must not end in the middle of it.
  if (!interrupted_ourselves && options.mode == Mode::ring && recorder->copy_lock.lock_within(2000))
    recorder->copy_lock.unlock();
  note_clocks();
  header.end_tick = recorder->clock.now();
  std::atomic_ref<uint32_t>(header.end).store(static_cast<uint32_t>(how), std::memory_order_release);
}

__attribute__((destructor)) static void process_exits() { end_trace(End::exit); }

// Not left to the first event: a program that never allocates is recorded too, and says so if it cannot be.
__attribute__((constructor)) static void process_starts() {
  start_of_process();
  known_thread();
  unwind::set_up_outside_hooks();
}

}  // namespace heapspy
