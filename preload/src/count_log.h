// The log of mode count: per thread how often each entry point was called and how large the blocks were, in a mapped page of
// the trace; no events. Constant space.
#pragma once
#include "thread_counters.h"

namespace heapspy {

// Counts the call after whatever was due: registers the thread, begins a forked child's trace, looks at RSS. A call that is not
// the program's own is not counted.
HEAPSPY_COLD void* upkeep_then_count(format::Call call, void* block, uint64_t size);
HEAPSPY_COLD void upkeep_then_count_and_free(format::Call call, void* block, void (*free)(void*));
HEAPSPY_COLD void* count_realloc_without_block(uint64_t size);        // nullptr
HEAPSPY_COLD void* count_failed(format::Call call, format::Call as);  // nullptr

struct CountLog {
  static HEAPSPY_HOT void* block_given(format::Call call, void* block, uint64_t size) {
    ThreadState& thread = *tls.state;
    if (HEAPSPY_UNLIKELY(--thread.until_upkeep < 0)) return upkeep_then_count(call, block, size);
    count(*thread.counters, call, size);
    return block;
  }

  static HEAPSPY_HOT void* allocation(format::Operation operation, format::Origin, void* block, uint64_t size) {
    if (HEAPSPY_UNLIKELY(!block)) return count_failed(call_of(operation), format::Call::failed);
    return block_given(call_of(operation), block, size);
  }
  static void* aligned_allocation(format::Origin origin, unsigned, void* block, uint64_t size) {
    return block ? block_given(call_of(origin), block, size) : count_failed(call_of(origin), format::Call::failed);
  }
  static HEAPSPY_HOT void release_and_free(format::Release release, void* block, void (*free)(void*)) {
    ThreadState& thread = *tls.state;
    if (HEAPSPY_UNLIKELY(--thread.until_upkeep < 0)) return upkeep_then_count_and_free(call_of(release), block, free);
    count(*thread.counters, call_of(release));
    free(block);
  }
  static HEAPSPY_HOT bool realloc_begin(void*) { return true; }
  static HEAPSPY_HOT void* realloc_end(bool, uintptr_t, void* block, uint64_t size) {
    if (HEAPSPY_UNLIKELY(!block)) return count_realloc_without_block(size);
    return block_given(format::Call::reallocation, block, size);
  }
  // reallocarray whose product overflows.
  static void* failed(format::Origin, uint64_t) { return count_failed(format::Call::realloc_new, format::Call::failed); }
};

}  // namespace heapspy
