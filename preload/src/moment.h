// Moments that the program or a hook names in the calling thread's stream.
#pragma once
#include "heapspy/format/record.h"

namespace heapspy {

// True where this process has a trace and the calling thread is not at work for the recorder itself.
bool may_write_moment();
// Only after that. `text` is cut where a record ends.
void write_moment(format::Kind kind, const char* text);

}  // namespace heapspy
