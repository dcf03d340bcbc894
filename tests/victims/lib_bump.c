// An allocator that may be interrupted anywhere by a handler that allocates, too: it only ever counts up.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static char memory[64 << 20] __attribute__((aligned(64)));
static size_t used;

static void* take(size_t bytes) {
  const size_t whole = (bytes + 16 + 15) & ~(size_t)15;
  char* at = memory + __atomic_fetch_add(&used, whole, __ATOMIC_RELAXED);
  if (at + whole > memory + sizeof memory) return NULL;
  *(size_t*)at = bytes;
  return at + 16;
}

void* malloc(size_t bytes) { return take(bytes); }
void* calloc(size_t count, size_t each) { return take(count * each); }
void free(void* block) { (void)block; }
void* realloc(void* block, size_t bytes) {
  char* fresh = take(bytes);
  if (block && fresh) {
    const size_t old = *(size_t*)((char*)block - 16);
    memcpy(fresh, block, old < bytes ? old : bytes);
  }
  return fresh;
}
