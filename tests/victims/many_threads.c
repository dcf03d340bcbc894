// 600 threads that live all at once: each makes 50 mallocs of 40 bytes, waits for the others, and frees them. With a number as
// argument it frees and makes the first of them so often before.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

enum { kThreads = 600 };
static pthread_barrier_t barrier;
static int pairs;

static void* work(void* nothing) {
  pthread_setname_np(pthread_self(), "t-many");
  void* blocks[50];
  for (int i = 0; i < 50; i++) blocks[i] = malloc(40);
  for (int i = 0; i < pairs; i++) {
    free(blocks[0]);
    blocks[0] = malloc(40);
  }
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < 50; i++) free(blocks[i]);
  return nothing;
}

int main(int count, char** arguments) {
  if (count > 1) pairs = atoi(arguments[1]);
  static pthread_t threads[kThreads];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  pthread_barrier_init(&barrier, NULL, kThreads);
  for (int i = 0; i < kThreads; i++)
    if (pthread_create(&threads[i], &attributes, work, NULL)) return 3;
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  return 0;
}
