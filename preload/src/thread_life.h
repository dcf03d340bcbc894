// A thread from its first event to its end: what every log's cold path does first.
#pragma once
#include "hot.h"
#include "thread_state.h"

namespace heapspy {

// The state of the calling thread; registers it or begins a forked child's trace where that was not done yet. nullptr: it is
// not recorded, or not now. Leaves errno alone. `fresh`: it was registered now. `in_free`: see make_room().
ThreadState* known_thread(bool* fresh = nullptr, bool in_free = false);
// The same, for an event of the program: one that is lost is counted.
ThreadState* thread_of_event(bool* fresh = nullptr, bool in_free = false);

// Called when the thread ends, with its state (pthread_key_create).
void thread_ends(void* state);
// The calling thread has a new name.
void note_thread_name();
// Into its stream: what the thread is called now, if that is new.
void note_name(ThreadState& thread);
// Into the stream of the calling thread: what a JVM calls this thread.
void note_java_name(uint32_t tid, const char* name);
// Likewise: that it is one of Java's. "": its group is not known.
void note_java_thread(uint32_t tid, const char* group, bool daemon);
// At the start of a ring that a reader may have to understand by itself: who writes it.
void say_who(ThreadState& thread);

}  // namespace heapspy
