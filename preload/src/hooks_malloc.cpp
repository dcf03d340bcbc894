// The C entry points. Each is a pass-through test, the real call, and a record.
//
// Order: a free is recorded before the real free, an allocation after the real allocation. The other way round another
// thread could get the address and record it first, and the trace would show it live twice. realloc does both: a begin
// before, an end after.
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

[[gnu::cold, gnu::noinline]] void record_failure(Origin origin, size_t bytes) {
  const int error = errno;
  write_failed(origin, bytes);
  errno = error;
}

void* aligned_block(void* block, size_t alignment, size_t bytes) {
  if (HEAPSPY_UNLIKELY(!block)) return record_failure(Origin::aligned, bytes), nullptr;
  const unsigned log2_alignment = alignment ? 63u - static_cast<unsigned>(__builtin_clzll(alignment)) : 0;
  write_long_allocation(Origin::aligned, log2_alignment, reinterpret_cast<uint64_t>(block), bytes);
  return block;
}

size_t page_bytes() { return 4096; }

}  // namespace

HEAPSPY_EXPORT void* malloc(size_t bytes) {
  void* block = next_allocator.malloc(bytes);
  if (HEAPSPY_UNLIKELY(tls.busy)) return block;
  if (HEAPSPY_UNLIKELY(!block)) return record_failure(Origin::malloc, bytes), nullptr;
  write_allocation(Operation::malloc, Origin::malloc, block, bytes);
  return block;
}

HEAPSPY_EXPORT void free(void* block) {
  if (HEAPSPY_UNLIKELY(!block)) return;
  if (HEAPSPY_UNLIKELY(bootstrap::owns(block))) return;
  if (!HEAPSPY_UNLIKELY(tls.busy)) write_release(Release::free, block);
  next_allocator.free(block);
}

HEAPSPY_EXPORT void* calloc(size_t count, size_t each) {
  void* block = next_allocator.calloc(count, each);
  if (HEAPSPY_UNLIKELY(tls.busy)) return block;
  size_t bytes;
  if (HEAPSPY_UNLIKELY(__builtin_mul_overflow(count, each, &bytes))) bytes = SIZE_MAX;
  if (HEAPSPY_UNLIKELY(!block)) return record_failure(Origin::calloc, bytes), nullptr;
  write_allocation(Operation::calloc, Origin::calloc, block, bytes);
  return block;
}

// A block of the bootstrap arena moves to the real allocator at its first realloc.
[[gnu::cold, gnu::noinline]] static void* leave_bootstrap(void* block, size_t bytes) {
  void* fresh = malloc(bytes);
  const size_t old = bootstrap::usable_bytes(block);
  if (fresh) __builtin_memcpy(fresh, block, old < bytes ? old : bytes);
  return fresh;
}

[[gnu::cold, gnu::noinline]] static void record_realloc_without_block(size_t bytes) {
  const int error = errno;
  if (bytes == 0)
    write_realloc_freed();
  else
    write_realloc_failed(bytes);
  errno = error;
}

HEAPSPY_EXPORT void* realloc(void* block, size_t bytes) {
  if (HEAPSPY_UNLIKELY(tls.busy)) return next_allocator.realloc(block, bytes);
  if (!block) {
    void* fresh = next_allocator.realloc(nullptr, bytes);
    if (HEAPSPY_UNLIKELY(!fresh)) return record_failure(Origin::realloc, bytes), nullptr;
    write_allocation(Operation::realloc_new, Origin::realloc, fresh, bytes);
    return fresh;
  }
  if (HEAPSPY_UNLIKELY(bootstrap::owns(block))) return leave_bootstrap(block, bytes);
  write_realloc_begin(block);
  void* moved = next_allocator.realloc(block, bytes);
  if (HEAPSPY_UNLIKELY(!moved)) return record_realloc_without_block(bytes), nullptr;
  write_realloc_end(moved, bytes);
  return moved;
}

// glibc's own calls realloc through this table too; here it is one event either way.
HEAPSPY_EXPORT void* reallocarray(void* block, size_t count, size_t each) {
  size_t bytes;
  if (__builtin_mul_overflow(count, each, &bytes)) {
    if (!tls.busy) write_failed(Origin::realloc, SIZE_MAX);
    errno = ENOMEM;
    return nullptr;
  }
  return realloc(block, bytes);
}

HEAPSPY_EXPORT void* memalign(size_t alignment, size_t bytes) {
  void* block = next_allocator.memalign(alignment, bytes);
  return HEAPSPY_UNLIKELY(tls.busy) ? block : aligned_block(block, alignment, bytes);
}

HEAPSPY_EXPORT void* aligned_alloc(size_t alignment, size_t bytes) {
  void* block = next_allocator.aligned_alloc(alignment, bytes);
  return HEAPSPY_UNLIKELY(tls.busy) ? block : aligned_block(block, alignment, bytes);
}

HEAPSPY_EXPORT int posix_memalign(void** to, size_t alignment, size_t bytes) {
  const int error = next_allocator.posix_memalign(to, alignment, bytes);
  if (!HEAPSPY_UNLIKELY(tls.busy)) aligned_block(error ? nullptr : *to, alignment, bytes);
  return error;
}

HEAPSPY_EXPORT void* valloc(size_t bytes) {
  void* block = next_allocator.valloc(bytes);
  return HEAPSPY_UNLIKELY(tls.busy) ? block : aligned_block(block, page_bytes(), bytes);
}

HEAPSPY_EXPORT void* pvalloc(size_t bytes) {
  void* block = next_allocator.pvalloc(bytes);
  return HEAPSPY_UNLIKELY(tls.busy) ? block : aligned_block(block, page_bytes(), bytes);
}

HEAPSPY_EXPORT size_t malloc_usable_size(void* block) {
  if (HEAPSPY_UNLIKELY(block && bootstrap::owns(block))) return bootstrap::usable_bytes(block);
  return next_allocator.malloc_usable_size(block);
}

HEAPSPY_EXPORT void cfree(void* block) { free(block); }
// C23 7.24.3.4 and .5: equivalent to free(block).
HEAPSPY_EXPORT void free_sized(void* block, size_t) { free(block); }
HEAPSPY_EXPORT void free_aligned_sized(void* block, size_t, size_t) { free(block); }
