// 200 times: a thread allocates 50 blocks and exits while two others already free them.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { kRounds = 200, kBlocks = 50 };
static void* _Atomic places[kRounds][kBlocks];

static void* give(void* argument) {
  void* _Atomic* mine = argument;
  pthread_setname_np(pthread_self(), "t-leaves");
  for (int i = 0; i < kBlocks; i++) mine[i] = malloc(80);
  return NULL;
}

static void* take(void* argument) {
  const long half = (long)argument;
  pthread_setname_np(pthread_self(), half ? "t-takes-odd" : "t-takes-even");
  for (int round = 0; round < kRounds; round++)
    for (long i = half; i < kBlocks; i += 2) {
      void* block;
      while (!(block = places[round][i])) sched_yield();
      free(block);
    }
  return NULL;
}

int main(void) {
  pthread_t takers[2], giver;
  for (long i = 0; i < 2; i++) pthread_create(&takers[i], NULL, take, (void*)i);
  for (int round = 0; round < kRounds; round++) {
    pthread_create(&giver, NULL, give, places[round]);
    pthread_join(giver, NULL);
  }
  for (int i = 0; i < 2; i++) pthread_join(takers[i], NULL);
  return 0;
}
