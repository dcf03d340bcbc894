// The log of mode count: per thread how often each entry point was called and how large the blocks were, in a mapped page of
// the trace; no events. Constant space.
//
// Cost: four increments in the thread's own memory. Each is one instruction, so a signal handler in between loses nothing.
#pragma once
#include "heapspy/format/layout.h"
#include "heapspy/format/record.h"
#include "hot.h"
#include "thread_state.h"

namespace heapspy {

// Counts the call after whatever was due: registers the thread, begins a forked child's trace, looks at RSS. A call that is not
// the program's own is not counted.
HEAPSPY_COLD void* upkeep_then_count(format::Call call, void* block, uint64_t size);
HEAPSPY_COLD void upkeep_then_count_and_free(format::Call call, void* block, void (*free)(void*));
HEAPSPY_COLD void* count_realloc_without_block(uint64_t size);        // nullptr
HEAPSPY_COLD void* count_failed(format::Call call, format::Call as);  // nullptr

struct CountLog {
  static constexpr format::Call call_of(format::Operation operation) {
    switch (operation) {
      case format::Operation::calloc: return format::Call::calloc;
      case format::Operation::operator_new: return format::Call::operator_new;
      case format::Operation::realloc_new: return format::Call::realloc_new;
      default: return format::Call::malloc;
    }
  }
  static constexpr format::Call call_of(format::Origin origin) {
    return origin == format::Origin::operator_new_aligned ? format::Call::operator_new_aligned : format::Call::aligned;
  }
  static constexpr format::Call call_of(format::Release release) {
    return release == format::Release::operator_delete ? format::Call::operator_delete : format::Call::free;
  }

  static HEAPSPY_HOT uint32_t size_class(uint64_t size) {
    const uint32_t bits = size ? 64u - static_cast<uint32_t>(__builtin_clzll(size)) : 0;
    return bits < format::kCountedSizes ? bits : format::kCountedSizes - 1;
  }
  static HEAPSPY_HOT void count(format::ThreadCounters& counters, format::Call call) {
    counters.calls[static_cast<uint32_t>(call)]++;
  }
  static HEAPSPY_HOT void count(format::ThreadCounters& counters, format::Call call, uint64_t size) {
    count(counters, call);
    const uint32_t at = size_class(size);
    if (call != format::Call::reallocation) counters.allocations[at]++;
    counters.bytes[at] += size;
  }

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
