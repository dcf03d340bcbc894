// Threads that get their names by prctl, from another thread, through /proc, twice, and one whose name is no text.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static pthread_barrier_t barrier;

static void* by_prctl(void* nothing) {
  prctl(PR_SET_NAME, "n-by-prctl");
  free(malloc(10));
  return nothing;
}
static void* by_proc(void* nothing) {
  free(malloc(10));
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)gettid());
  const int file = open(path, O_WRONLY);
  if (write(file, "n-by-proc", 9) != 9) abort();
  close(file);
  return nothing;
}
static void* by_other(void* nothing) {
  free(malloc(10));
  pthread_barrier_wait(&barrier);  // is being named
  pthread_barrier_wait(&barrier);
  return nothing;
}
static void* twice(void* nothing) {
  pthread_setname_np(pthread_self(), "n-first");
  free(malloc(10));
  pthread_setname_np(pthread_self(), "n-last");
  return nothing;
}
static void* no_text(void* nothing) {
  pthread_setname_np(pthread_self(), "\033[31m<b>\"\377\n");
  free(malloc(77));
  return nothing;
}

int main(void) {
  pthread_barrier_init(&barrier, NULL, 2);
  void* (*const bodies[])(void*) = {by_prctl, by_proc, by_other, twice, no_text};
  for (int i = 0; i < 5; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, bodies[i], NULL);
    if (bodies[i] == by_other) {
      pthread_barrier_wait(&barrier);
      if (pthread_setname_np(thread, "n-by-other")) return 3;
      pthread_barrier_wait(&barrier);
    }
    pthread_join(thread, NULL);
  }
  return 0;
}
