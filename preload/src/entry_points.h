// The entry points of C, for each log: the real call and a record. (operator new and delete: new_entry_points.h.)
//
// Order: a free is recorded before the real free, an allocation after the real allocation. The other way round another
// thread could get the address and record it first, and the trace would show it live twice. realloc does both: a begin
// before, an end after.
//
// A log says what a mode keeps of an event: EventLog (full, ring), SampleLog, CountLog, NoLog. Where an event must pass through
// unrecorded, the thread's state has no room and the log's cold path drops it (thread_state.h, Life).
#pragma once
#include <errno.h>
#include <stdint.h>

#include "heapspy/format/record.h"
#include "hot.h"
#include "next_allocator.h"
#include "thread_state.h"

namespace heapspy {

// A block of the bootstrap arena moves to the real allocator at its first realloc.
HEAPSPY_COLD void* leave_bootstrap(void* block, size_t bytes);

inline unsigned log2_of(size_t alignment) { return 63u - static_cast<unsigned>(__builtin_clzll(alignment | 1)); }

template <class Log>
struct EntryPoints {
  using Operation = format::Operation;
  using Origin = format::Origin;
  static constexpr size_t kPageBytes = 4096;

  static void* malloc(size_t bytes) {
    return Log::allocation(Operation::malloc, Origin::malloc, next_allocator.malloc(bytes), bytes);
  }

  static void free(void* block) {
    if (HEAPSPY_UNLIKELY(!block || bootstrap::owns(block))) return;
    Log::release_and_free(format::Release::free, block, next_allocator.free);
  }

  static void* calloc(size_t count, size_t each) {
    // The loader's, for the recorder's helper thread: no block of the program's, so neither an event nor the allocator's.
    if (HEAPSPY_UNLIKELY(tls.state == &own_thread_state)) return bootstrap::allocate(count * each);
    void* block = next_allocator.calloc(count, each);
    size_t bytes;
    if (HEAPSPY_UNLIKELY(__builtin_mul_overflow(count, each, &bytes))) bytes = SIZE_MAX;
    return Log::allocation(Operation::calloc, Origin::calloc, block, bytes);
  }

  static void* realloc(void* block, size_t bytes) {
    if (!block) return Log::allocation(Operation::realloc_new, Origin::realloc, next_allocator.realloc(nullptr, bytes), bytes);
    if (HEAPSPY_UNLIKELY(bootstrap::owns(block))) return leave_bootstrap(block, bytes);
    const auto before = reinterpret_cast<uintptr_t>(block);
    const auto begun = Log::realloc_begin(block);
    return Log::realloc_end(begun, before, next_allocator.realloc(block, bytes), bytes);
  }

  // glibc's own calls realloc through the symbol table too; here it is one event either way.
  static void* reallocarray(void* block, size_t count, size_t each) {
    size_t bytes;
    if (HEAPSPY_UNLIKELY(__builtin_mul_overflow(count, each, &bytes))) {
      errno = ENOMEM;
      return Log::failed(Origin::realloc, SIZE_MAX);
    }
    return realloc(block, bytes);
  }

  static void* memalign(size_t alignment, size_t bytes) {
    return Log::aligned_allocation(Origin::aligned, log2_of(alignment), next_allocator.memalign(alignment, bytes), bytes);
  }

  static void* aligned_alloc(size_t alignment, size_t bytes) {
    return Log::aligned_allocation(Origin::aligned, log2_of(alignment), next_allocator.aligned_alloc(alignment, bytes), bytes);
  }

  static int posix_memalign(void** to, size_t alignment, size_t bytes) {
    const int error = next_allocator.posix_memalign(to, alignment, bytes);
    Log::aligned_allocation(Origin::aligned, log2_of(alignment), error ? nullptr : *to, bytes);
    return error;
  }

  static void* valloc(size_t bytes) {
    return Log::aligned_allocation(Origin::aligned, log2_of(kPageBytes), next_allocator.valloc(bytes), bytes);
  }

  static void* pvalloc(size_t bytes) {
    return Log::aligned_allocation(Origin::aligned, log2_of(kPageBytes), next_allocator.pvalloc(bytes), bytes);
  }
};

}  // namespace heapspy
