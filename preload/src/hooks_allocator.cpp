// What the loader finds when the program calls the allocator: a jump through the table, to the mode that records.
#include <malloc.h>
#include <stdlib.h>

#include "entry_table.h"
#include "hot.h"
#include "next_allocator.h"

using namespace heapspy;

#define X(result, name, parameters, arguments) \
  HEAPSPY_EXPORT result name parameters { return entry.name arguments; }
HEAPSPY_ENTRY_POINTS(X)
#undef X

HEAPSPY_EXPORT void cfree(void* block) { return entry.free(block); }
// C23 7.24.3.4 and .5: equivalent to free(block).
HEAPSPY_EXPORT void free_sized(void* block, size_t) { return entry.free(block); }
HEAPSPY_EXPORT void free_aligned_sized(void* block, size_t, size_t) { return entry.free(block); }

HEAPSPY_EXPORT size_t malloc_usable_size(void* block) {
  if (HEAPSPY_UNLIKELY(block && bootstrap::owns(block))) return bootstrap::usable_bytes(block);
  return next_allocator.malloc_usable_size(block);
}
