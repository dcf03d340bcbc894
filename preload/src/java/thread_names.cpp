#include "thread_names.h"

#include <dlfcn.h>

#include <atomic>
#include <initializer_list>

#include "heapspy/format/encode.h"
#include "os.h"
#include "recorder.h"
#include "thread_life.h"
#include "unwind/exported_symbol.h"
#include "unwind/hotspot_structs.h"

namespace heapspy::java {

using namespace format;

namespace {

enum class State : int { waiting, beginning, on, off };
constinit std::atomic<State> state{State::waiting};
Tools* tools = nullptr;
// From a java.lang.Thread to the kernel's id of its thread, as HotSpot keeps them; -1: not known.
void* address_field = nullptr;  // jfieldID of Thread.eetop: the JavaThread
int32_t os_thread_at = -1, thread_id_at = -1;

const void* library() { return dlopen("libjvm.so", RTLD_NOLOAD | RTLD_LAZY); }

// 0: it has not begun, has ended, or there is no telling.
uint32_t tid_of(Environment* environment, Object thread) {
  if (!address_field || os_thread_at < 0) return 0;
  const auto address = [&] {
    return static_cast<uint64_t>(call<int64_t>(environment, jni::kGetLongField, thread, address_field));
  };
  const uint64_t from = address();
  uint64_t os_thread = 0;
  uint32_t tid = 0;
  const auto read = [](uint64_t at, auto* to) {
    return at >= 4096 && os::read_memory(static_cast<int>(os::pid()), at, to, sizeof *to) == sizeof *to;
  };
  if (!read(from + static_cast<uint64_t>(os_thread_at), &os_thread) ||
      !read(os_thread + static_cast<uint64_t>(thread_id_at), &tid))
    return 0;
  // A thread is started once: where it has the same address still, it has lived all the time.
  return address() == from ? tid : 0;
}

// At most `room` bytes, cut between two characters.
uint64_t length_within(const char* text, uint64_t room) {
  uint64_t length = 0;
  while (length <= room && text[length]) length++;
  if (length <= room) return length;
  for (length = room; length && (text[length] & 0xc0) == 0x80;) length--;
  return length;
}

void cut_to_record(char* text) { text[length_within(text, (kMaxRecordWords - 1) * kTextBytesPerWord)] = 0; }
void give_back(char* text) { call<int>(tools, jvmti::kDeallocate, static_cast<void*>(text)); }

// The group's name without those it is in: "main", "system", a pool's.
void say_group(Environment* environment, const ThreadInfo& thread, uint32_t tid) {
  ThreadGroupInfo group{};
  const bool known = thread.group && call<int>(tools, jvmti::kGetThreadGroupInfo, thread.group, &group) == 0 && group.name;
  if (known) cut_to_record(group.name);
  note_java_thread(tid, known ? group.name : "", thread.is_daemon);
  if (known) give_back(group.name);
  if (group.parent) call<void>(environment, jni::kDeleteLocalRef, group.parent);
}

// A thread's group stays the same while it lives, and so does whether it is a daemon: said once.
enum class Say { name, all };

void say(Environment* environment, Object thread, uint32_t tid, Say what) {
  ThreadInfo info{};
  if (call<int>(tools, jvmti::kGetThreadInfo, thread, &info) != 0 || !info.name) return;
  cut_to_record(info.name);
  note_java_name(tid, info.name);
  give_back(info.name);
  if (what == Say::all) say_group(environment, info, tid);
  for (Object each : {info.group, info.loader})
    if (each) call<void>(environment, jni::kDeleteLocalRef, each);
}

void thread_starts(Tools*, Environment* environment, Object thread) {
  if (recorder && recorder->alive) say(environment, thread, static_cast<uint32_t>(os::tid()), Say::all);
}

// The offsets, believed once they have led from this thread to its own id.
void find_offsets(Environment* environment, const unwind::HotspotStructs& structs) {
  Object self = nullptr;
  if (call<int>(tools, jvmti::kGetCurrentThread, &self) != 0 || !self) return;
  Object type = call<Object>(environment, jni::kGetObjectClass, self);
  address_field =
      call<void*>(environment, jni::kGetFieldID, type, static_cast<const char*>("eetop"), static_cast<const char*>("J"));
  if (!address_field) call<void>(environment, jni::kExceptionClear);
  os_thread_at = structs.java_thread_os_thread;
  thread_id_at = structs.os_thread_id;
  if (thread_id_at < 0 || tid_of(environment, self) != os::tid()) os_thread_at = -1;
  call<void>(environment, jni::kDeleteLocalRef, type);
  call<void>(environment, jni::kDeleteLocalRef, self);
}

void say_those_that_are_there(Environment* environment) {
  int32_t count = 0;
  Object* threads = nullptr;
  if (os_thread_at < 0 || call<int>(tools, jvmti::kGetAllThreads, &count, &threads) != 0) return;
  for (int32_t i = 0; i < count; i++) {
    if (const uint32_t tid = tid_of(environment, threads[i])) say(environment, threads[i], tid, Say::all);
    call<void>(environment, jni::kDeleteLocalRef, threads[i]);
  }
  call<int>(tools, jvmti::kDeallocate, static_cast<void*>(threads));
}

State begin(Environment* environment) {
  unwind::HotspotStructs structs{};
  const void* map = library();
  if (!map || !structs.read_of_threads(map)) return State::off;
  Machine* machine = nullptr;
  if (call<int>(environment, jni::kGetJavaVM, &machine) != 0 || !machine) return State::off;
  Tools* found = nullptr;
  // Refused until the JVM is up.
  if (call<int>(machine, jni::kGetEnv, reinterpret_cast<void**>(&found), jvmti::kVersion) != 0 || !found) return State::waiting;
  tools = found;
  void* callbacks[jvmti::kThreadStartCallback + 1] = {};
  callbacks[jvmti::kThreadStartCallback] = reinterpret_cast<void*>(&thread_starts);
  if (call<int>(tools, jvmti::kSetEventCallbacks, static_cast<const void*>(callbacks),
                static_cast<int32_t>(sizeof callbacks)) != 0)
    return State::off;
  find_offsets(environment, structs);
  // First those to come, then those that are there: none is missed.
  if (call<int>(tools, jvmti::kSetEventNotificationMode, int32_t{1}, jvmti::kThreadStart, Object{nullptr}) != 0)
    return State::off;
  say_those_that_are_there(environment);
  return State::on;
}

bool wanted() { return recorder && recorder->alive && options.java && options.mode != Mode::count; }

}  // namespace

const void* next_function(const char* name) {
  const void* next = dlsym(RTLD_NEXT, name);
  if (next) return next;
  const void* map = library();  // loaded with RTLD_LOCAL
  return map ? unwind::exported_symbol(map, name) : nullptr;
}

void begin_if_possible(Environment* environment) {
  State seen = state.load(std::memory_order_relaxed);
  if (HEAPSPY_LIKELY(seen != State::waiting) || !wanted()) return;
  if (!state.compare_exchange_strong(seen, State::beginning)) return;
  state.store(begin(environment), std::memory_order_release);
}

void renamed(Environment* environment, Object thread) {
  if (state.load(std::memory_order_acquire) != State::on || !wanted()) return;
  if (const uint32_t tid = tid_of(environment, thread)) say(environment, thread, tid, Say::name);
}

}  // namespace heapspy::java
