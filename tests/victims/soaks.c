// Sixteen threads that allocate in bursts and rest a millisecond in between, for as many seconds as the argument says. Each
// keeps a table of blocks; a thread ends and is replaced now and then.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static time_t end;

static void* work(void* argument) {
  uint64_t state = (uintptr_t)argument * 0x9E3779B97F4A7C15ull | 1;
  void* blocks[256] = {0};
  for (int burst = 0; burst < 20000 && time(NULL) < end; burst++) {
    for (int i = 0; i < 100; i++) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      const unsigned at = state % 256;
      free(blocks[at]);
      blocks[at] = malloc(16 + (state >> 20) % 2000);
    }
    usleep(1000);
  }
  for (int i = 0; i < 256; i++) free(blocks[i]);
  return NULL;
}

int main(int count, char** arguments) {
  end = time(NULL) + (count > 1 ? atoi(arguments[1]) : 1);
  uintptr_t number = 1;
  pthread_t threads[16];
  for (int i = 0; i < 16; i++) pthread_create(&threads[i], NULL, work, (void*)number++);
  while (time(NULL) < end)
    for (int i = 0; i < 16; i++) {
      pthread_join(threads[i], NULL);
      pthread_create(&threads[i], NULL, work, (void*)number++);
    }
  for (int i = 0; i < 16; i++) pthread_join(threads[i], NULL);
  return 0;
}
