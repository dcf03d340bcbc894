// Threads that rest and then do much at once: each replaces 1 to 300 blocks of all in a burst, then sleeps up to 2 ms or
// computes for up to 0.2 ms, without a call. Arguments: bursts per thread (default 1000), threads (default 8, at most 64).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

enum { kPlaces = 4000, kMaxThreads = 64 };
static void* _Atomic place[kPlaces];
static long bursts = 1000;

static uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void* work(void* argument) {
  uint64_t state = 88172645463325252u + (uint64_t)(uintptr_t)argument * 7919;
  volatile uint64_t sink = 0;
  for (long burst = 0; burst < bursts; burst++) {
    const uint64_t many = 1 + next_random(&state) % 300;
    for (uint64_t i = 0; i < many; i++) {
      void* fresh = malloc(16 + next_random(&state) % 300);
      free(atomic_exchange(&place[next_random(&state) % kPlaces], fresh));
    }
    if (next_random(&state) % 2) {
      const struct timespec rest = {0, (long)(next_random(&state) % 2000000)};
      nanosleep(&rest, NULL);
    } else {
      for (uint64_t i = next_random(&state) % 100000; i; i--) sink += i;
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc > 1) bursts = atol(argv[1]);
  const long threads = argc > 2 ? atol(argv[2]) : 8;
  if (threads < 1 || threads > kMaxThreads) return 2;
  pthread_t worker[kMaxThreads];
  for (long i = 0; i < threads; i++) pthread_create(&worker[i], NULL, work, (void*)(intptr_t)i);
  for (long i = 0; i < threads; i++) pthread_join(worker[i], NULL);
  for (int i = 0; i < kPlaces; i++) free(place[i]);
  return 0;
}
