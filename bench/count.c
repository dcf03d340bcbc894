// A shim that counts what reaches glibc. Preload it beneath a recorder, LD_PRELOAD="libheapspy.so libcount.so", and the
// recorder's figures must be the same.
//
// At the end of the process it appends one line of JSON to the file COUNT_OUT, or to stderr. `malloc`, `calloc`,
// `realloc`, `aligned` and `free` are calls (free(NULL) apart); the rest splits them as `heapspy report` does:
//   allocations = malloc + calloc + aligned + realloc_of_null, less those that failed
//   frees       = free + realloc_to_zero
// A forked child that does not exec counts on from its parent's figures.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);

static _Atomic long mallocs, callocs, reallocs, aligneds, frees, frees_of_null;
static _Atomic long allocations, reallocations, releases, failures;
static _Atomic long reallocs_of_null, reallocs_to_zero;

static void add(_Atomic long* counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }
static long value(_Atomic long* counter) { return atomic_load_explicit(counter, memory_order_relaxed); }

static void* allocated(void* block) {
  add(block ? &allocations : &failures);
  return block;
}

void* malloc(size_t size) {
  add(&mallocs);
  return allocated(__libc_malloc(size));
}

void* calloc(size_t count, size_t size) {
  add(&callocs);
  return allocated(__libc_calloc(count, size));
}

void free(void* block) {
  add(block ? &frees : &frees_of_null);
  if (block) add(&releases);
  __libc_free(block);
}

void* realloc(void* block, size_t size) {
  add(&reallocs);
  if (block == NULL) {
    add(&reallocs_of_null);
    return allocated(__libc_realloc(NULL, size));
  }
  void* moved = __libc_realloc(block, size);
  if (size == 0 && moved == NULL) {  // glibc: realloc(p, 0) frees
    add(&reallocs_to_zero);
    add(&releases);
  } else {
    add(moved ? &reallocations : &failures);
  }
  return moved;
}

static void* aligned(size_t alignment, size_t size) {
  add(&aligneds);
  return allocated(__libc_memalign(alignment, size));
}

void* memalign(size_t alignment, size_t size) { return aligned(alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return aligned(alignment, size); }
void* valloc(size_t size) { return aligned((size_t)sysconf(_SC_PAGESIZE), size); }

void* pvalloc(size_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (size > PTRDIFF_MAX - page) {
    add(&aligneds);
    add(&failures);
    errno = ENOMEM;
    return NULL;
  }
  return aligned(page, (size + page - 1) / page * page);
}

int posix_memalign(void** block, size_t alignment, size_t size) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  const int before = errno;
  void* got = aligned(alignment, size);
  errno = before;
  if (got == NULL) return ENOMEM;
  *block = got;
  return 0;
}

__attribute__((destructor)) static void report(void) {
  char line[1024];
  const int length = snprintf(
      line, sizeof line,
      "{\"pid\": %d, \"malloc\": %ld, \"free\": %ld, \"calloc\": %ld, \"realloc\": %ld, \"aligned\": %ld, \"failed\": %ld, "
      "\"free_null\": %ld, \"realloc_of_null\": %ld, \"realloc_to_zero\": %ld, \"allocations\": %ld, \"frees\": %ld, "
      "\"reallocations\": %ld, \"program\": \"%.200s\"}\n",
      (int)getpid(), value(&mallocs), value(&frees), value(&callocs), value(&reallocs), value(&aligneds), value(&failures),
      value(&frees_of_null), value(&reallocs_of_null), value(&reallocs_to_zero), value(&allocations), value(&releases),
      value(&reallocations), program_invocation_short_name);
  const char* path = getenv("COUNT_OUT");
  const int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : STDERR_FILENO;
  if (file < 0) return;
  if (write(file, line, (size_t)length) < 0) return;  // nobody is left to tell
}
