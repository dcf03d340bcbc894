// Counts what this process asks of the kernel about its memory, whoever asks: libc's malloc does so without a symbol that could
// be put before it. A seccomp filter hands each of these calls to a signal handler, which counts it and makes it. That takes
// microseconds a call: times of such a replay are not the allocator's.
#pragma once
#include <stdint.h>

namespace heapspy::trial::memory_calls {

struct Counts {
  uint64_t brk, mmap, munmap, mremap, mprotect, madvise;
};

// From now on, in this thread and those that it starts. False: the kernel refuses, or this is no x86-64.
bool begin();
// So far.
Counts counts();

}  // namespace heapspy::trial::memory_calls
