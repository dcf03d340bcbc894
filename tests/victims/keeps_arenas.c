// Eight threads, each in an arena of its own, fill 4 MiB in their turn and free all but a last small block: glibc keeps it.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { kThreads = 8, kBlocks = 4096, kBytes = 1000 };

static pthread_mutex_t turns = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t here;

static void* fill(void* unused) {
  (void)unused;
  free(malloc(1));  // takes an arena while all the others live
  pthread_barrier_wait(&here);
  pthread_mutex_lock(&turns);
  void* blocks[kBlocks];
  for (int i = 0; i < kBlocks; i++) memset(blocks[i] = malloc(kBytes), 1, kBytes);
  void* last = malloc(100);
  for (int i = 0; i < kBlocks; i++) free(blocks[i]);
  pthread_mutex_unlock(&turns);
  pthread_barrier_wait(&here);
  return last;
}

int main(void) {
  pthread_t threads[kThreads];
  void* last[kThreads];
  pthread_barrier_init(&here, NULL, kThreads);
  for (int i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, fill, NULL);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], &last[i]);
  return 0;
}
