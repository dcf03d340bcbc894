// Requests from outside (`heapspy trim`) and the helper thread that serves them.
//
// A process that has threads of its own gets one helper thread: it sleeps on the control word of the trace's first page and
// takes the snapshots that other threads order, so that no thread of the program stands still for them. A single-threaded
// program gets none (a second thread would switch glibc off its single-thread fast paths and change what is measured): there
// the next event serves.
#pragma once
#include "heapspy/format/layout.h"

namespace heapspy::control {

// Once, before the others.
void set_up();
// At a thread's first event and at upkeep, where pthread_create may be called.
void start_helper_if_useful();
// A thread that has allocated serves what was asked, where there is no helper. Outside every recorder lock.
void serve_if_asked();
// Any thread, from a hook.
void have_helper_take(format::SnapshotReason reason);
// The main thread called pthread_exit: the process ends with the last of the others, and the helper must not be that last one.
void main_thread_ended();

}  // namespace heapspy::control
