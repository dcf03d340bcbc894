// Counts every call that reaches it and passes it on to glibc. The counters are a file, COUNT_FOLDER/PID, written as the calls
// come: what happens after the last destructor, or before a kill, is in it. A forked child counts into a file of its own.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void* __libc_valloc(size_t);
extern void* __libc_pvalloc(size_t);
extern void __libc_free(void*);

// As the test reads it (counts_test.cpp).
struct Counters {
  _Atomic uint64_t malloc, calloc, realloc, aligned, free, free_of_null;
};

static struct Counters early;  // until environ is there
static struct Counters* _Atomic counters = NULL;

// A new file each time: a child must not count into its parent's.
static struct Counters* open_counters(void) {
  const char* folder = environ ? getenv("COUNT_FOLDER") : NULL;
  if (!folder) return &early;
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", folder, (int)getpid());
  const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(struct Counters))) return &early;
  void* mapped = mmap(NULL, sizeof(struct Counters), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return mapped == MAP_FAILED ? &early : mapped;
}

static struct Counters* count(void) {
  struct Counters* now = atomic_load(&counters);
  if (__builtin_expect(now != NULL, 1)) return now;
  now = open_counters();
  if (now == &early) return now;
  now->malloc += early.malloc;
  now->calloc += early.calloc;
  now->realloc += early.realloc;
  now->aligned += early.aligned;
  now->free += early.free;
  now->free_of_null += early.free_of_null;
  atomic_store(&counters, now);
  return now;
}

static void child_begins(void) {
  early = (struct Counters){0};
  atomic_store(&counters, NULL);
  count();
}

__attribute__((constructor)) static void watch_forks(void) {
  count();
  pthread_atfork(NULL, NULL, child_begins);
}

void* malloc(size_t bytes) {
  count()->malloc++;
  return __libc_malloc(bytes);
}
void* calloc(size_t number, size_t each) {
  count()->calloc++;
  return __libc_calloc(number, each);
}
void* realloc(void* block, size_t bytes) {
  count()->realloc++;
  return __libc_realloc(block, bytes);
}
void free(void* block) {
  if (block)
    count()->free++;
  else
    count()->free_of_null++;
  __libc_free(block);
}
void* memalign(size_t alignment, size_t bytes) {
  count()->aligned++;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count()->aligned++;
  return __libc_memalign(alignment, bytes);
}
void* valloc(size_t bytes) {
  count()->aligned++;
  return __libc_valloc(bytes);
}
void* pvalloc(size_t bytes) {
  count()->aligned++;
  return __libc_pvalloc(bytes);
}
int posix_memalign(void** to, size_t alignment, size_t bytes) {
  count()->aligned++;
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  const int error = errno;
  void* block = __libc_memalign(alignment, bytes);
  errno = error;
  if (!block) return ENOMEM;
  *to = block;
  return 0;
}
// glibc's, whatever allocator the program brings: the blocks are glibc's.
size_t malloc_usable_size(void* block) {
  static size_t (*real)(void*);
  if (!real) real = (size_t(*)(void*))dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "malloc_usable_size");
  return real(block);
}
