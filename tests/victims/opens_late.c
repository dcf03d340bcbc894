// Opens a library (the recorder) when it has run for a while, and goes on.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void* work(void* nothing) {
  for (int i = 0; i < 10000; i++) free(malloc((size_t)i));
  return nothing;
}

int main(int count, char** arguments) {
  if (count < 2) return 2;
  void* early = malloc(100);
  work(NULL);
  if (!dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL)) fprintf(stderr, "heapspy: %s\n", dlerror());
  work(NULL);
  free(early);
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  puts("done");
  return 0;
}
