// Sixteen threads in a ring hand blocks of one size to each other as fast as they can: each makes 5000, puts them into its
// neighbour's places and frees what the other neighbour put into its own.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { kThreads = 16, kBlocks = 5000, kPlaces = 8 };
static void* _Atomic places[kThreads][kPlaces];

static void* work(void* argument) {
  const size_t number = (size_t)argument;
  pthread_setname_np(pthread_self(), "t-passes");
  void* _Atomic* mine = places[number];
  void* _Atomic* next = places[(number + 1) % kThreads];
  int given = 0, taken = 0;
  while (given < kBlocks || taken < kBlocks) {
    int moved = 0;
    for (int i = 0; i < kPlaces; i++) {
      void* block = atomic_exchange(&mine[i], NULL);
      if (block) {
        free(block);
        taken++, moved++;
      }
      if (given < kBlocks && next[i] == NULL) {
        next[i] = malloc(64);  // nobody else fills this place
        given++, moved++;
      }
    }
    if (!moved) sched_yield();
  }
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, work, (void*)i);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  return 0;
}
