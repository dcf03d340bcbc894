// An allocator whose first FAIL_FIRST calls fail.
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static _Atomic int left = -1;

static int fails(void) {
  if (left < 0) {
    const char* number = getenv("FAIL_FIRST");
    left = number ? atoi(number) : 0;
  }
  if (left == 0) return 0;
  left--;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void* calloc(size_t number, size_t each) { return fails() ? NULL : __libc_calloc(number, each); }
void* realloc(void* block, size_t bytes) { return fails() ? NULL : __libc_realloc(block, bytes); }
void* memalign(size_t alignment, size_t bytes) { return fails() ? NULL : __libc_memalign(alignment, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return fails() ? NULL : __libc_memalign(alignment, bytes); }
