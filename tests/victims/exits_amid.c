// Eight threads allocate for ever; when all have begun, the main thread returns 5.
#include <pthread.h>
#include <stdlib.h>

static pthread_barrier_t begun;

static void* work(void* nothing) {
  free(malloc(10));
  pthread_barrier_wait(&begun);
  for (size_t i = 0;; i = (i + 1) % 300) {
    void* blocks[10];
    for (int k = 0; k < 10; k++) blocks[k] = malloc(16 + i);
    for (int k = 0; k < 10; k++) free(blocks[k]);
  }
  return nothing;
}

int main(void) {
  pthread_barrier_init(&begun, NULL, 9);
  for (int i = 0; i < 8; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL)) return 3;
  }
  pthread_barrier_wait(&begun);
  return 5;
}
