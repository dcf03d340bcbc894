// Sixteen threads that give one address to each other as fast as they can. With MALLOC_ARENA_MAX=1 and
// GLIBC_TUNABLES=glibc.malloc.tcache_count=0 whatever one frees is what another gets next. Arguments: how, pairs per thread
// (default 20000).
//   exchange  each puts a new block into one place for all and frees what was there
//   mutex     each allocates and frees under one lock
//   spin      they take turns: each frees the block of the one before and allocates the next
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kThreads = 16 };
static const char* how = "exchange";
static long pairs = 20000;
static void* _Atomic place;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_long turn;

static void* work(void* argument) {
  const long number = (long)(intptr_t)argument;
  for (long i = 0; i < pairs; i++) {
    if (!strcmp(how, "exchange")) {
      free(atomic_exchange(&place, malloc(64)));
    } else if (!strcmp(how, "mutex")) {
      pthread_mutex_lock(&lock);
      void* block = malloc(64);
      free(atomic_exchange(&place, NULL));
      atomic_store(&place, block);
      pthread_mutex_unlock(&lock);
    } else {
      while (atomic_load(&turn) % kThreads != number) sched_yield();
      free(atomic_exchange(&place, NULL));
      atomic_store(&place, malloc(64));
      atomic_fetch_add(&turn, 1);
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc > 1) how = argv[1];
  if (argc > 2) pairs = atol(argv[2]);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, work, (void*)(intptr_t)i);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  free(place);
  return 0;
}
