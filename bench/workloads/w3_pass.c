// w3: each thread replaces blocks in an array of its own; the arrays are passed round 20 times, so that threads free
// what others allocated. Arguments: replacements per thread (default 4 000 000), threads (default 2, at most 64).
#include <pthread.h>

#include "workload.h"

enum { kSlots = 10000, kRounds = 20, kMaxThreads = 64 };
static char* slot[kMaxThreads][kSlots];
static long replacements;
static long threads;
static pthread_barrier_t end_of_round;

static void* work(void* argument) {
  const long id = (long)(intptr_t)argument;
  uint64_t state = 12345 + (uint64_t)id * 7919;
  for (long round = 0; round < kRounds; round++) {
    char** mine = slot[(id + round) % threads];
    for (long i = 0; i < replacements / kRounds; i++) {
      char** at = &mine[next_random(&state) % kSlots];
      free(*at);
      *at = malloc(16 + next_random(&state) % 500);
      **at = 1;
    }
    pthread_barrier_wait(&end_of_round);
  }
  return NULL;
}

int main(int argc, char** argv) {
  replacements = argument(argc, argv, 1, 4000000);
  threads = argument(argc, argv, 2, 2);
  if (threads < 1 || threads > kMaxThreads) {
    fprintf(stderr, "w3: %ld threads: give 1 to %d\n", threads, kMaxThreads);
    return 2;
  }
  pthread_t worker[kMaxThreads];
  pthread_barrier_init(&end_of_round, NULL, (unsigned)threads);

  const double start = seconds_now();
  for (long i = 0; i < threads; i++) pthread_create(&worker[i], NULL, work, (void*)(intptr_t)i);
  for (long i = 0; i < threads; i++) pthread_join(worker[i], NULL);
  const double seconds = seconds_now() - start;

  for (long i = 0; i < threads; i++)
    for (int k = 0; k < kSlots; k++) free(slot[i][k]);
  print_result("w3", 2.0 * (double)replacements * (double)threads, seconds);
  return 0;
}
