// Mode ring: a copy of what the rings hold, in a trace of its own beside the process's, while recording goes on.
#pragma once
#include "heapspy/format/layout.h"

namespace heapspy::ring_copy {

// Writes NAME.1.hspy (then .2, …): facts of the process, the words of every ring, a snapshot. Any thread that is shut, outside
// every recorder lock; a second one that comes meanwhile returns at once. False: none was made, said in one message.
bool freeze(format::Trigger why);

}  // namespace heapspy::ring_copy
