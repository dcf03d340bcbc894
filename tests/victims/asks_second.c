// A thread of 100 mallocs and frees; says what the second interposer (lib_second.c) saw of them, where it is there.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static long (*mallocs)(void);
static long (*frees)(void);
static long seen_mallocs, seen_frees;

static void* work(void* nothing) {
  pthread_setname_np(pthread_self(), "t-second");
  const long before = mallocs ? mallocs() : 0, freed_before = frees ? frees() : 0;
  void* blocks[100];
  for (int i = 0; i < 100; i++) blocks[i] = malloc(48);
  for (int i = 0; i < 100; i++) free(blocks[i]);
  seen_mallocs = mallocs ? mallocs() - before : 0;
  seen_frees = frees ? frees() - freed_before : 0;
  return nothing;
}

int main(void) {
  *(void**)&mallocs = dlsym(RTLD_DEFAULT, "second_mallocs");
  *(void**)&frees = dlsym(RTLD_DEFAULT, "second_frees");
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  printf("%ld mallocs, %ld frees\n", seen_mallocs, seen_frees);
  return 0;
}
