#include "control.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include "event_writer.h"
#include "next_allocator.h"
#include "recorder.h"
#include "ring_copy.h"
#include "snapshot.h"
#include "trigger.h"

#pragma weak malloc_trim  // next_allocator.cpp says why

namespace heapspy::control {

using namespace format;

namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr uint32_t kMainEnded = 1u << 31;  // in Recorder::helper_work
constexpr uint32_t kNoMore = 1u << 30;     // the helper is to end

// glibc's own word (2.32 and later, sys/single_threaded.h): 0 once there was a second thread, whether or not it allocates.
const volatile char* single_threaded_word = nullptr;
// The word is inherited: in the only thread of a process that another one with threads has forked, it is 0 and says nothing.
bool word_is_inherited = false;

Control& words() { return recorder->file.header().control; }

void trim() {
  Control& c = words();
  if (!allocator_is_glibc()) {
    c.result = RequestResult::refused;
    return;
  }
  snapshot::take(SnapshotReason::before_trim);
  c.begin_tick = recorder->clock.now();
  c.value = static_cast<uint64_t>(malloc_trim(0));
  c.end_tick = recorder->clock.now();
  snapshot::take(SnapshotReason::after_trim);
  c.result = RequestResult::done;
}

// Into a chunk of its own: the helper has no stream.
void mark() {
  Control& c = words();
  char text[sizeof c.text + 1] = {};
  static_assert(sizeof text % 8 == 1);
  size_t length = 0;
  while (length < sizeof c.text && (text[length] = c.text[length])) length++;
  ChunkHeader chunk{};
  chunk.kind = ChunkKind::mark;
  chunk.first_tick = recorder->clock.now();
  c.begin_tick = c.end_tick = chunk.first_tick;
  c.result = recorder->file.append(chunk, {text, align_up(length, 8)}) ? RequestResult::done : RequestResult::refused;
}

void take_snapshot() {
  Control& c = words();
  c.begin_tick = recorder->clock.now();
  const bool taken =
      options.mode == Mode::ring ? ring_copy::freeze(Trigger::requested) : snapshot::take(SnapshotReason::requested);
  c.result = taken ? RequestResult::done : RequestResult::refused;
  c.end_tick = recorder->clock.now();
}

void serve() {
  Control& c = words();
  const uint32_t asked = std::atomic_ref<uint32_t>(c.asked).load(std::memory_order_acquire);
  if (asked == std::atomic_ref<uint32_t>(c.answered).load(std::memory_order_relaxed)) return;
  switch (c.request) {
    case Request::trim: trim(); break;
    case Request::snapshot: take_snapshot(); break;
    case Request::mark: mark(); break;
    default: c.result = RequestResult::refused;
  }
  note_clocks();
  std::atomic_ref<uint32_t>(c.answered).store(asked, std::memory_order_release);
  os::futex_wake(&c.answered);
}

// True while threads of the program live: the main thread is a zombie by now, the helper does not count.
bool program_has_threads() {
  os::File folder(os::open("/proc/self/task", O_RDONLY | O_DIRECTORY));
  alignas(8) char entries[768];
  int threads = 0;
  if (!folder.ok()) return true;
  for (;;) {
    const long got = os::getdents(folder.fd(), entries, sizeof entries);
    if (got <= 0) break;
    for (long at = 0; at < got;) {
      uint16_t length;
      __builtin_memcpy(&length, entries + at + 16, sizeof length);
      threads += entries[at + 19] != '.';
      at += length;
    }
  }
  return threads > 2;
}

void do_work(uint32_t wanted) {
  recorder->helper_work.fetch_and(~wanted);
  for (uint32_t i = 0; i < 8; i++) {
    const auto reason = static_cast<SnapshotReason>(i);
    if (wanted & snapshot_bit(reason)) snapshot::take(reason);
    const auto why = static_cast<Trigger>(i);
    if (wanted & freeze_bit(why)) ring_copy::freeze(why);
  }
}

void* help(void*) {
  tls.state = &never_state;
  os::open_signal_of_set_id();
  Recorder& r = *recorder;
  Control& c = words();
  pthread_setname_np(pthread_self(), "heapspy");
  if (options.control) std::atomic_ref<uint32_t>(c.listeners).store(1, std::memory_order_release);
  r.helper_tid.store(static_cast<uint32_t>(os::tid()), std::memory_order_release);
  r.helper_runs.store(true, std::memory_order_release);
  // `asked` is the futex word for every reason to wake: threads of the process add to helper_work and wake it.
  for (;;) {
    const uint32_t wanted = r.helper_work.load(std::memory_order_acquire);
    if (wanted & kNoMore) return nullptr;
    if (wanted & kMainEnded) {
      if (!program_has_threads()) return nullptr;
    }
    if (options.trigger.any()) trigger::freeze_if_due();
    snapshot::take_if_due();  // RSS may grow, and time passes, without an event
    do_work(wanted & ~kMainEnded);
    serve_if_asked();
    const uint32_t seen = std::atomic_ref<uint32_t>(c.asked).load(std::memory_order_acquire);
    if (options.control && seen != std::atomic_ref<uint32_t>(c.answered).load(std::memory_order_relaxed)) continue;
    if ((r.helper_work.load() & ~kMainEnded) != 0) continue;
    // A wake between the test and the wait would be missed, so the wait is bounded; it costs one wake-up a second.
    timespec poll = {1, 0};
    if (options.trigger.any()) poll = {0, 100000000};  // RSS may grow without an event
    if (wanted & kMainEnded) poll = {0, 20000000};
    os::futex_wait(&c.asked, seen, &poll);
  }
}

}  // namespace

void set_up() { single_threaded_word = static_cast<const volatile char*>(dlsym(RTLD_DEFAULT, "__libc_single_threaded")); }

void process_begins(bool forked) { word_is_inherited = forked && single_threaded_word && !*single_threaded_word; }

void start_helper_if_useful() {
  Recorder& r = *recorder;
  const bool word_says_threads = single_threaded_word && !*single_threaded_word && !word_is_inherited;
  const bool has_threads = r.threads.threads_alive_bound() >= 2 || word_says_threads;
  if (!has_threads || r.helper_asked_for.exchange(true)) return;
  if (!options.control && !options.snapshot_at_peak && !options.snapshot_every_ns && !options.trigger.any()) return;
  void* stack = os::map_anonymous(kStackBytes);
  if (!stack) return;
  os::SignalsBlocked blocked;  // inherited: no signal of the program is ever handled by the helper
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  MakingOwnThread making;
  pthread_create(&thread, &attributes, help, nullptr);
  pthread_attr_destroy(&attributes);
}

void process_got_thread() {
  word_is_inherited = false;
  start_helper_if_useful();
}

void serve_if_asked() {
  if (!options.control) return;
  Control& c = words();
  if (std::atomic_ref<uint32_t>(c.asked).load(std::memory_order_relaxed) !=
      std::atomic_ref<uint32_t>(c.answered).load(std::memory_order_relaxed))
    serve();
}

void have_helper_do(uint32_t bits) {
  recorder->helper_work.fetch_or(bits, std::memory_order_release);
  os::futex_wake(&words().asked);
}

void end_helper() {
  Recorder& r = *recorder;
  if (!r.helper_asked_for.exchange(true)) return;
  r.helper_work.fetch_or(kNoMore, std::memory_order_release);
  const auto process = static_cast<uint32_t>(os::pid());
  const timespec millisecond = {0, 1000000};
  for (int i = 0; i < 2000; i++) {
    os::futex_wake(&words().asked);
    const uint32_t helper = r.helper_tid.load(std::memory_order_acquire);
    if (helper && os::thread_is_gone(process, helper)) break;
    uint32_t nothing = 0;
    os::futex_wait(&nothing, 0, &millisecond);
  }
  r.helper_runs.store(false, std::memory_order_relaxed);
  std::atomic_ref<uint32_t>(words().listeners).store(0, std::memory_order_relaxed);
  r.helper_work.fetch_and(~kNoMore);
  r.helper_tid.store(0, std::memory_order_relaxed);
}

void main_thread_ended() {
  recorder->helper_work.fetch_or(kMainEnded, std::memory_order_release);
  os::futex_wake(&words().asked);
}

}  // namespace heapspy::control
