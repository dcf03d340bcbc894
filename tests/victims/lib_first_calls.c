// Its constructor runs before the recorder's and makes the process's first calls of the allocator: frees.
#include <malloc.h>
#include <stdlib.h>

extern void* __libc_malloc(size_t);

__attribute__((constructor)) static void first(void) {
  free(NULL);
  free(__libc_malloc(24));  // not through the recorder
  free(malloc(24));
}
