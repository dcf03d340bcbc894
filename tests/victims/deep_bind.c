// 100 blocks of a RTLD_DEEPBIND library freed here, 100 of ours freed there, and 100 of ours freed here (thread "t-deep").
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static void* (*deep_malloc)(size_t);
static void (*deep_free)(void*);

static void* work(void* nothing) {
  pthread_setname_np(pthread_self(), "t-deep");
  void* blocks[100];
  for (int i = 0; i < 100; i++) blocks[i] = deep_malloc(2000);
  for (int i = 0; i < 100; i++) free(blocks[i]);
  for (int i = 0; i < 100; i++) blocks[i] = malloc(3000);
  for (int i = 0; i < 100; i++) deep_free(blocks[i]);
  for (int i = 0; i < 100; i++) blocks[i] = malloc(4000);
  for (int i = 0; i < 100; i++) free(blocks[i]);
  return nothing;
}

int main(int count, char** arguments) {
  if (count < 2) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (!library) return 3;
  *(void**)&deep_malloc = dlsym(library, "deep_malloc");
  *(void**)&deep_free = dlsym(library, "deep_free");
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  return 0;
}
