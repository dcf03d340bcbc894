// The log of mode sample: a block of n bytes is recorded with probability 1 - exp(-n / HEAPSPY_SAMPLE), and so are the frees
// and reallocs of recorded blocks, every one. The gaps between samples are drawn from the exponential distribution, in bytes,
// per thread, as tcmalloc and jemalloc do it: the estimate of any sum over blocks is unbiased.
//
// Cost: an allocation subtracts its size, a free looks at one byte (sampled_set.h).
#pragma once
#include "event_writer.h"
#include "sampled_set.h"
#include "stacked_log.h"

namespace heapspy {

// `caller`: of the hook; nullptr: without stacks.
HEAPSPY_COLD void* sample_allocation(format::Operation operation, format::Origin origin, unsigned log2_alignment, void* block,
                                     uint64_t size, const unwind::Registers* caller = nullptr);
HEAPSPY_COLD void release_sampled_and_free(format::Release release, void* block, void (*free)(void*));
HEAPSPY_COLD bool begin_sampled_realloc(void* block);
HEAPSPY_COLD void* end_sampled_realloc(uintptr_t before, void* block, uint64_t size, const unwind::Registers* caller = nullptr);
HEAPSPY_COLD void* realloc_of_unsampled_failed(uint64_t size);  // nullptr

struct SampleLog {
  // True where the block's bytes reach the next sample.
  static HEAPSPY_HOT bool due(uint64_t size) {
    return HEAPSPY_UNLIKELY((tls.state->until_sample -= static_cast<int64_t>(size | !size)) < 0);
  }

  static HEAPSPY_HOT void* allocation(format::Operation operation, format::Origin origin, void* block, uint64_t size) {
    if (HEAPSPY_UNLIKELY(!block)) return write_failed(origin, size);
    return due(size) ? sample_allocation(operation, origin, 0, block, size) : block;
  }
  static void* aligned_allocation(format::Origin origin, unsigned log2_alignment, void* block, uint64_t size) {
    if (HEAPSPY_UNLIKELY(!block)) return write_failed(origin, size);
    return due(size) ? sample_allocation(format::Operation::escape, origin, log2_alignment, block, size) : block;
  }
  static HEAPSPY_HOT void release_and_free(format::Release release, void* block, void (*free)(void*)) {
    if (HEAPSPY_UNLIKELY(sampled_set::may_contain(reinterpret_cast<uintptr_t>(block))))
      return release_sampled_and_free(release, block, free);
    free(block);
  }
  // True where the block was recorded.
  static HEAPSPY_HOT bool realloc_begin(void* block) {
    return HEAPSPY_UNLIKELY(sampled_set::may_contain(reinterpret_cast<uintptr_t>(block))) && begin_sampled_realloc(block);
  }
  static HEAPSPY_HOT void* realloc_end(bool sampled, uintptr_t before, void* block, uint64_t size) {
    if (HEAPSPY_UNLIKELY(sampled)) return end_sampled_realloc(before, block, size);
    if (HEAPSPY_UNLIKELY(!block)) return realloc_of_unsampled_failed(size);
    return due(size) ? sample_allocation(format::Operation::realloc_new, format::Origin::realloc, 0, block, size) : block;
  }
  static void* failed(format::Origin origin, uint64_t size) { return write_failed(origin, size); }
};

// The same with call stacks.
struct StackedSampleLog : SampleLog {
  static HEAPSPY_HOT void* allocation(format::Operation operation, format::Origin origin, void* block, uint64_t size) {
    if (HEAPSPY_UNLIKELY(!block)) return write_failed(origin, size);
    return due(size) ? sample(operation, origin, 0, block, size) : block;
  }
  static HEAPSPY_HOT void* aligned_allocation(format::Origin origin, unsigned log2_alignment, void* block, uint64_t size) {
    if (HEAPSPY_UNLIKELY(!block)) return write_failed(origin, size);
    return due(size) ? sample(format::Operation::escape, origin, log2_alignment, block, size) : block;
  }
  static HEAPSPY_HOT void* realloc_end(bool sampled, uintptr_t before, void* block, uint64_t size) {
    if (HEAPSPY_UNLIKELY(sampled)) {
      const unwind::Registers caller = caller_of_hook();
      return end_sampled_realloc(before, block, size, &caller);
    }
    if (HEAPSPY_UNLIKELY(!block)) return realloc_of_unsampled_failed(size);
    return due(size) ? sample(format::Operation::realloc_new, format::Origin::realloc, 0, block, size) : block;
  }

 private:
  static HEAPSPY_HOT void* sample(format::Operation operation, format::Origin origin, unsigned log2_alignment, void* block,
                                  uint64_t size) {
    const unwind::Registers caller = caller_of_hook();
    return sample_allocation(operation, origin, log2_alignment, block, size, &caller);
  }
};

}  // namespace heapspy
