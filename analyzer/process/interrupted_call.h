// System calls that a stop ends with EINTR although no signal came: Linux does not start them again (signal(7), "Interruption
// of system calls and library functions by stop signals"), and a program that takes EINTR of epoll_wait for a failure would end
// because somebody looked at it.
#pragma once
#include <sys/types.h>

#include "analyzer/process/live_process.h"

namespace heapspy::process {

// Thread `tid` of `process`, which stands still by an interrupt of this tracer and has no signal to take, makes such a call
// anew when it goes on, as if it had come to it only now: a timeout begins anew. Nothing where it stands elsewhere, where a
// signal waits for it (then EINTR is the program's own), or on other machines than x86-64.
void start_call_again(const LiveProcess& process, pid_t tid);

}  // namespace heapspy::process
