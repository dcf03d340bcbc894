// Where memory is at one moment (format/layout.h: ChunkKind::snapshot): mappings with their RSS, resident pages of the malloc
// regions, glibc's heaps, thread names, cgroup figures. Read from /proc/self by system calls into a mapping of its own;
// takes about a tenth of a millisecond in a small process, tens of milliseconds in a JVM.
#pragma once
#include <cstdint>

#include "heapspy/format/layout.h"
#include "trace_file.h"

namespace heapspy::snapshot {

// Takes one now. Any thread, outside every recorder lock; a second thread that comes meanwhile returns at once, unless it is
// for the process's exit or was asked for: that one waits. True where it is in the trace.
bool take(format::SnapshotReason reason);
// … into another file.
bool take(format::SnapshotReason reason, TraceFile& file);
// Looks at RSS and the interval; takes one where the settings ask for it, or has the helper thread take it.
void take_if_due();

}  // namespace heapspy::snapshot
