// Finds the caches of threads (tcache): their tables by what these hold, and whose they are by the one place of the threads'
// variables that points to a table in all of them.
#pragma once
#include "analyzer/heap/chunk_bits.h"

namespace heapspy::heap {

void list_thread_caches(const HeapCopy&, HeapWalk&, ChunkBits&);

}  // namespace heapspy::heap
