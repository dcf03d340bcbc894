// The main thread ends by pthread_exit. A worker, when the main thread is gone, frees the blocks that it left, makes 1000
// mallocs and frees, says so, and ends: the process must end with it.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void* left[200];
static pthread_t main_thread;

static void* work(void* nothing) {
  pthread_setname_np(pthread_self(), "t-heir");
  pthread_join(main_thread, NULL);
  for (int i = 0; i < 200; i++) free(left[i]);
  for (int i = 0; i < 1000; i++) free(malloc(56));
  if (write(1, "heir done\n", 10) != 10) abort();
  return nothing;
}

int main(void) {
  main_thread = pthread_self();
  for (int i = 0; i < 200; i++) left[i] = malloc(72);
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_detach(thread);
  pthread_exit(NULL);
}
