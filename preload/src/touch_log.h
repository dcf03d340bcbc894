// The log of mode full with HEAPSPY_TOUCH=on: as `Log`, and large blocks tell which of their pages were touched (touch.h).
#pragma once
#include "event_writer.h"
#include "touch.h"

namespace heapspy {

template <class Log>
struct TouchLog : Log {
  static HEAPSPY_HOT void* allocation(format::Operation operation, format::Origin origin, void* block, uint64_t size) {
    if (HEAPSPY_UNLIKELY(size >= touch::kLeastBytes) && block && origin != format::Origin::calloc) touch::mark_pages(block);
    return Log::allocation(operation, origin, block, size);
  }
  static HEAPSPY_HOT void* aligned_allocation(format::Origin origin, unsigned log2_alignment, void* block, uint64_t size) {
    if (HEAPSPY_UNLIKELY(size >= touch::kLeastBytes) && block) touch::mark_pages(block);
    return Log::aligned_allocation(origin, log2_alignment, block, size);
  }
  static HEAPSPY_HOT void release_and_free(format::Release release, void* block, void (*free)(void*)) {
    touch::tell_pages(block);
    Log::release_and_free(release, block, free);
  }
  // What it returns is handed to realloc_end: the bytes of the old block.
  static HEAPSPY_HOT size_t realloc_begin(void* block) {
    const size_t usable = touch::tell_pages(block);
    Log::realloc_begin(block);
    return usable;
  }
  static HEAPSPY_HOT void* realloc_end(size_t usable_before, uintptr_t before, void* block, uint64_t size) {
    if (HEAPSPY_UNLIKELY(size >= touch::kLeastBytes) && block && size > usable_before) touch::mark_pages(block, usable_before);
    return Log::realloc_end(true, before, block, size);
  }
};

}  // namespace heapspy
