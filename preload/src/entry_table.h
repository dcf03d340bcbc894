// Every exported entry point of the allocator jumps through this table: to the functions of the mode that records
// (entry_points.h), or, where the process is not recorded, to those that only pass the call on.
#pragma once
#include <cstddef>

#include "heapspy/format/layout.h"

namespace heapspy {

// result, name, parameters, arguments. The forms of operator new and delete have their mangled names.
#define HEAPSPY_C_ENTRY_POINTS(X)                                                             \
  X(void*, malloc, (size_t bytes), (bytes))                                                   \
  X(void, free, (void* block), (block))                                                       \
  X(void*, calloc, (size_t count, size_t each), (count, each))                                \
  X(void*, realloc, (void* block, size_t bytes), (block, bytes))                              \
  X(void*, reallocarray, (void* block, size_t count, size_t each), (block, count, each))      \
  X(void*, memalign, (size_t alignment, size_t bytes), (alignment, bytes))                    \
  X(void*, aligned_alloc, (size_t alignment, size_t bytes), (alignment, bytes))               \
  X(int, posix_memalign, (void** to, size_t alignment, size_t bytes), (to, alignment, bytes)) \
  X(void*, valloc, (size_t bytes), (bytes))                                                   \
  X(void*, pvalloc, (size_t bytes), (bytes))
#define HEAPSPY_NEW_ENTRY_POINTS(X)                                                                                        \
  X(void*, _Znwm, (size_t bytes), (bytes))                                                                                 \
  X(void*, _Znam, (size_t bytes), (bytes))                                                                                 \
  X(void*, _ZnwmRKSt9nothrow_t, (size_t bytes, const void* tag), (bytes, tag))                                             \
  X(void*, _ZnamRKSt9nothrow_t, (size_t bytes, const void* tag), (bytes, tag))                                             \
  X(void*, _ZnwmSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment))                                     \
  X(void*, _ZnamSt11align_val_t, (size_t bytes, size_t alignment), (bytes, alignment))                                     \
  X(void*, _ZnwmSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t alignment, const void* tag), (bytes, alignment, tag)) \
  X(void*, _ZnamSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t alignment, const void* tag), (bytes, alignment, tag)) \
  X(void, _ZdlPv, (void* block), (block))                                                                                  \
  X(void, _ZdaPv, (void* block), (block))                                                                                  \
  X(void, _ZdlPvm, (void* block, size_t bytes), (block, bytes))                                                            \
  X(void, _ZdaPvm, (void* block, size_t bytes), (block, bytes))                                                            \
  X(void, _ZdlPvRKSt9nothrow_t, (void* block, const void* tag), (block, tag))                                              \
  X(void, _ZdaPvRKSt9nothrow_t, (void* block, const void* tag), (block, tag))                                              \
  X(void, _ZdlPvSt11align_val_t, (void* block, size_t alignment), (block, alignment))                                      \
  X(void, _ZdaPvSt11align_val_t, (void* block, size_t alignment), (block, alignment))                                      \
  X(void, _ZdlPvmSt11align_val_t, (void* block, size_t bytes, size_t alignment), (block, bytes, alignment))                \
  X(void, _ZdaPvmSt11align_val_t, (void* block, size_t bytes, size_t alignment), (block, bytes, alignment))                \
  X(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, (void* block, size_t alignment, const void* tag), (block, alignment, tag))  \
  X(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, (void* block, size_t alignment, const void* tag), (block, alignment, tag))
#define HEAPSPY_ENTRY_POINTS(X) HEAPSPY_C_ENTRY_POINTS(X) HEAPSPY_NEW_ENTRY_POINTS(X)

struct EntryTable {
#define X(result, name, parameters, arguments) result(*name) parameters;
  HEAPSPY_ENTRY_POINTS(X)
#undef X
};

// At first leads to functions that begin the recording (start_of_process) and try again. Its words change one by one, while
// threads may be reading them: each call goes wholly one way or the other.
extern EntryTable entry;
// For the calls that come while the recording begins, by the thread that begins it.
extern EntryTable unrecorded;

void pass_on_while_beginning();                             // fills `unrecorded`
void enter_mode(format::Mode mode, format::Stacks stacks);  // from now on calls are recorded as the mode does
void enter_no_mode();                                       // … are passed on

}  // namespace heapspy
