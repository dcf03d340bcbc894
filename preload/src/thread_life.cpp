#include "thread_life.h"

#include <errno.h>
#include <pthread.h>

#include "control.h"
#include "event_room.h"
#include "event_writer.h"
#include "recorder.h"
#include "text.h"

namespace heapspy {

using namespace format;

namespace {

// The state of every thread before its first event: no room, so that event takes the cold path.
constinit ThreadState unborn_state = stand_in(Life::unborn);
constinit ThreadState lost_state = stand_in(Life::lost);

void count_lost_event() {
  std::atomic_ref<uint64_t>(recorder->file.header().unregistered_lost).fetch_add(1, std::memory_order_relaxed);
}

void put_text_record(ThreadState& thread, uint64_t* words, uint32_t head, Kind kind, uint64_t payload, const char* text) {
  const uint32_t count = head + encode_text(text, words + head, kMaxRecordWords - head);
  words[0] = encode_first(kind, count, payload);
  event_room::put_words(thread, words, count);
}

void put_java_thread(ThreadState& thread, uint32_t tid, const char* group, bool daemon) {
  uint64_t words[kMaxRecordWords];
  put_text_record(thread, words, 1, Kind::java_thread, tid | (daemon ? kDaemonBit : 0), group);
}

ThreadState* register_thread() {
  ThreadState* thread = recorder->threads.add(static_cast<uint32_t>(os::tid()));
  if (!thread) return nullptr;
  thread->is_main = os::tid() == os::pid();
  os::thread_name(thread->name);
  if (thread->counters) __builtin_memcpy(thread->counters->name, thread->name, sizeof thread->name);
  if (!thread->slot) return thread;
  thread->rseq_trusted = event_room::rseq_works();
  tls.no_rseq = off_cpu_notice::armed_value();
  thread->on_cpu = off_cpu_notice::word_of_this_thread();
  off_cpu_notice::arm(thread->on_cpu);
  event_room::stamp(*thread);
  say_who(*thread);
  return thread;
}

// Registers the calling thread, and begins the process's trace if this is its first event. nullptr: `to_be` says which
// state it has from now on.
ThreadState* first_event_of_thread(ThreadState*& to_be) {
  os::SignalsBlocked blocked;
  if (!process_is_recorded()) return to_be = &never_state, nullptr;
  if (ThreadState* thread = register_thread()) return to_be = thread;
  return to_be = &lost_state, nullptr;
}

}  // namespace

constinit ThreadState shut_state = stand_in(Life::shut);
constinit ThreadState guarded_state = stand_in(Life::guarded);
constinit ThreadState own_thread_state = stand_in(Life::guarded);
constinit ThreadState never_state = stand_in(Life::never);
constinit thread_local Tls tls __attribute__((tls_model("initial-exec"))) = {&unborn_state, 0};

ThreadState* known_thread(bool* fresh, bool in_free) {
  ThreadState* thread = tls.state;
  switch (thread->life) {
    case Life::active:
    case Life::ending: return thread;
    case Life::never:
    case Life::guarded:
    case Life::free:
    case Life::lost:
    case Life::shut: return nullptr;
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
    note_end_of_thread(thread);
    if (!in_free) control::start_helper_if_useful();
    if (fresh) *fresh = true;
  }
  errno = error;
  return thread;
}

ThreadState* thread_of_event(bool* fresh, bool in_free) {
  ThreadState* thread = known_thread(fresh, in_free);
  const Life life = tls.state->life;
  if (!thread && (life == Life::lost || life == Life::shut) && recorder && recorder->alive) count_lost_event();
  return thread;
}

void say_who(ThreadState& thread) {
  uint64_t words[kMaxRecordWords];
  words[1] = encode_number(reinterpret_cast<uint64_t>(__builtin_frame_address(0)));
  put_text_record(thread, words, 2, Kind::thread_start, thread.tid, thread.name);
  if (thread.java_name[0]) put_text_record(thread, words, 1, Kind::thread_name, thread.tid, thread.java_name);
  if (thread.is_java) put_java_thread(thread, thread.tid, thread.java_group, thread.java_daemon);
}

void note_name(ThreadState& thread) {
  char name[16];
  os::thread_name(name);
  if (same(name, thread.name)) return;
  __builtin_memcpy(thread.name, name, sizeof name);
  if (thread.counters) __builtin_memcpy(thread.counters->name, name, sizeof name);
  if (!thread.slot) return;
  uint64_t words[kMaxRecordWords];
  put_text_record(thread, words, 1, Kind::thread_name, thread.tid, name);
}

void note_thread_name() {
  if (recorder && recorder->at_rest) return;
  ThreadState* thread = known_thread();
  if (!thread || (thread->slot && !(thread = make_room()))) return;
  Shut shut;
  os::SignalsBlocked blocked;
  note_name(*thread);
}

void note_java_name(uint32_t tid, const char* name) {
  if (recorder && recorder->at_rest) return;
  ThreadState* thread = known_thread();
  if (!thread || !thread->slot || !(thread = make_room())) return;
  Shut shut;
  os::SignalsBlocked blocked;
  uint64_t words[kMaxRecordWords];
  put_text_record(*thread, words, 1, Kind::thread_name, tid, name);
  if (tid == thread->tid) Text(thread->java_name, sizeof thread->java_name).add(name);
}

void note_java_thread(uint32_t tid, const char* group, bool daemon) {
  if (recorder && recorder->at_rest) return;
  ThreadState* thread = known_thread();
  if (!thread || !thread->slot || !(thread = make_room())) return;
  Shut shut;
  os::SignalsBlocked blocked;
  put_java_thread(*thread, tid, group, daemon);
  if (tid != thread->tid) return;
  Text(thread->java_group, sizeof thread->java_group).add(group);
  thread->java_daemon = daemon;
  thread->is_java = true;
}

// glibc calls this when the thread ends, after C++ thread_local destructors. Frees may still follow (its thread cache, other
// keys' destructors): they are recorded, the ring stays ours until the kernel says that the thread is gone.
void thread_ends(void* state) {
  auto* thread = static_cast<ThreadState*>(state);
  if (tls.state != thread || !recorder || !recorder->alive) return;
  Shut shut;
  os::SignalsBlocked blocked;
  if (thread->counters) thread->counters->end_tick = recorder->clock.now();
  if (!thread->slot) {
    note_name(*thread);
  } else {
    if (event_room::make(*thread) == event_room::kNoRoom) return;
    note_name(*thread);
    const uint64_t word = encode_first(Kind::thread_end, 1, 0);
    event_room::put_words(*thread, &word, 1);
  }
  recorder->threads.ending(*thread);
  if (thread->is_main) control::main_thread_ended();
}

}  // namespace heapspy
