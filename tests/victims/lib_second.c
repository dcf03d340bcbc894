// A second interposer, as simple as they come: it passes on to whatever comes next and counts.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

static _Atomic long mallocs, frees;

void* malloc(size_t bytes) {
  static void* (*next)(size_t);
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "malloc");
  mallocs++;
  return next(bytes);
}
void free(void* block) {
  static void (*next)(void*);
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "free");
  frees++;
  next(block);
}

long second_mallocs(void) { return mallocs; }
long second_frees(void) { return frees; }
