// The C entry points. Each is the real call and a record.
//
// Order: a free is recorded before the real free, an allocation after the real allocation. The other way round another
// thread could get the address and record it first, and the trace would show it live twice. realloc does both: a begin
// before, an end after.
//
// Where an event must pass through unrecorded, the thread's state has no room and the record's cold path drops it
// (thread_state.h, Life).
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "event_writer.h"
#include "next_allocator.h"

using namespace heapspy;
using format::Operation;
using format::Origin;
using format::Release;

#define HEAPSPY_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t kPageBytes = 4096;

void* record_aligned(void* block, size_t alignment, size_t bytes) {
  if (HEAPSPY_UNLIKELY(!block)) return write_failed(Origin::aligned, bytes);
  return write_long_allocation(Origin::aligned, 63u - static_cast<unsigned>(__builtin_clzll(alignment | 1)), block, bytes);
}

// A block of the bootstrap arena moves to the real allocator at its first realloc.
HEAPSPY_COLD void* leave_bootstrap(void* block, size_t bytes) {
  void* fresh = malloc(bytes);
  const size_t old = bootstrap::usable_bytes(block);
  if (fresh) __builtin_memcpy(fresh, block, old < bytes ? old : bytes);
  return fresh;
}

}  // namespace

HEAPSPY_EXPORT void* malloc(size_t bytes) {
  return write_allocation(Operation::malloc, Origin::malloc, next_allocator.malloc(bytes), bytes);
}

HEAPSPY_EXPORT void free(void* block) {
  if (HEAPSPY_UNLIKELY(!block || bootstrap::owns(block))) return;
  write_release_and_free(Release::free, block, next_allocator.free);
}

HEAPSPY_EXPORT void* calloc(size_t count, size_t each) {
  // The loader's, for the recorder's helper thread: no block of the program's, so neither an event nor the allocator's.
  if (HEAPSPY_UNLIKELY(tls.state == &own_thread_state)) return bootstrap::allocate(count * each);
  void* block = next_allocator.calloc(count, each);
  size_t bytes;
  if (HEAPSPY_UNLIKELY(__builtin_mul_overflow(count, each, &bytes))) bytes = SIZE_MAX;
  return write_allocation(Operation::calloc, Origin::calloc, block, bytes);
}

HEAPSPY_EXPORT void* realloc(void* block, size_t bytes) {
  if (!block) return write_allocation(Operation::realloc_new, Origin::realloc, next_allocator.realloc(nullptr, bytes), bytes);
  if (HEAPSPY_UNLIKELY(bootstrap::owns(block))) return leave_bootstrap(block, bytes);
  write_realloc_begin(block);
  return write_realloc_end(next_allocator.realloc(block, bytes), bytes);
}

// glibc's own calls realloc through this table too; here it is one event either way.
HEAPSPY_EXPORT void* reallocarray(void* block, size_t count, size_t each) {
  size_t bytes;
  if (HEAPSPY_UNLIKELY(__builtin_mul_overflow(count, each, &bytes))) {
    errno = ENOMEM;
    return write_failed(Origin::realloc, SIZE_MAX);
  }
  return realloc(block, bytes);
}

HEAPSPY_EXPORT void* memalign(size_t alignment, size_t bytes) {
  return record_aligned(next_allocator.memalign(alignment, bytes), alignment, bytes);
}

HEAPSPY_EXPORT void* aligned_alloc(size_t alignment, size_t bytes) {
  return record_aligned(next_allocator.aligned_alloc(alignment, bytes), alignment, bytes);
}

HEAPSPY_EXPORT int posix_memalign(void** to, size_t alignment, size_t bytes) {
  const int error = next_allocator.posix_memalign(to, alignment, bytes);
  record_aligned(error ? nullptr : *to, alignment, bytes);
  return error;
}

HEAPSPY_EXPORT void* valloc(size_t bytes) { return record_aligned(next_allocator.valloc(bytes), kPageBytes, bytes); }

HEAPSPY_EXPORT void* pvalloc(size_t bytes) { return record_aligned(next_allocator.pvalloc(bytes), kPageBytes, bytes); }

HEAPSPY_EXPORT size_t malloc_usable_size(void* block) {
  if (HEAPSPY_UNLIKELY(block && bootstrap::owns(block))) return bootstrap::usable_bytes(block);
  return next_allocator.malloc_usable_size(block);
}

HEAPSPY_EXPORT void cfree(void* block) { free(block); }
// C23 7.24.3.4 and .5: equivalent to free(block).
HEAPSPY_EXPORT void free_sized(void* block, size_t) { free(block); }
HEAPSPY_EXPORT void free_aligned_sized(void* block, size_t, size_t) { free(block); }
