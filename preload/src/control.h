// Requests from outside (`heapspy trim`) and the helper thread that serves them.
//
// A process that has threads of its own gets one helper thread: it sleeps on the control word of the trace's first page and
// takes the snapshots that other threads order, so that no thread of the program stands still for them. A single-threaded
// program gets none (a second thread would switch glibc off its single-thread fast paths and change what is measured): there
// the next event serves.
#pragma once
#include <cstdint>

#include "heapspy/format/layout.h"

namespace heapspy::control {

// Once, before the others.
void set_up();
// With each trace of this process's: the first, and one more in every forked child.
void process_begins(bool forked);
// At a thread's first event and at upkeep, where pthread_create may be called.
void start_helper_if_useful();
// After pthread_create: threads that never allocate need the helper most, for no event of theirs serves anybody.
void process_got_thread();
// A thread that has allocated serves what was asked, where there is no helper. Outside every recorder lock.
void serve_if_asked();
// What the helper can be asked for.
constexpr uint32_t snapshot_bit(format::SnapshotReason reason) { return 1u << static_cast<uint32_t>(reason); }
constexpr uint32_t freeze_bit(format::Trigger why) { return 1u << (8 + static_cast<uint32_t>(why)); }
// Wakes it. Any thread, from a hook or a signal handler.
void have_helper_do(uint32_t bits);
// The helper is gone when it returns, and none is made any more.
void end_helper();
// The main thread called pthread_exit: the process ends with the last of the others, and the helper must not be that last one.
void main_thread_ended();

}  // namespace heapspy::control
