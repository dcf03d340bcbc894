// The log of a process that is not recorded, or not now: nothing (entry_points.h).
#pragma once
#include "heapspy/format/record.h"
#include "hot.h"

namespace heapspy {

struct NoLog {
  static HEAPSPY_HOT void* allocation(format::Operation, format::Origin, void* block, uint64_t) { return block; }
  static HEAPSPY_HOT void* aligned_allocation(format::Origin, unsigned, void* block, uint64_t) { return block; }
  static HEAPSPY_HOT void release_and_free(format::Release, void* block, void (*free)(void*)) { free(block); }
  static HEAPSPY_HOT bool realloc_begin(void*) { return true; }
  static HEAPSPY_HOT void* realloc_end(bool, uintptr_t, void* block, uint64_t) { return block; }
  static HEAPSPY_HOT void* failed(format::Origin, uint64_t) { return nullptr; }
};

}  // namespace heapspy
