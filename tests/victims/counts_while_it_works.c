// Two threads malloc and free for ever; how many calls have returned stands in the file "calls", one number a thread, written
// as they return.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void* work(void* argument) {
  volatile uint64_t* calls = argument;
  pthread_setname_np(pthread_self(), "t-works");
  for (;;) {
    void* blocks[20];
    for (int i = 0; i < 20; i++) {
      blocks[i] = malloc(24 + 8 * (size_t)i);
      ++*calls;
    }
    for (int i = 0; i < 20; i++) {
      free(blocks[i]);
      ++*calls;
    }
  }
  return NULL;
}

int main(void) {
  const int file = open("calls", O_RDWR | O_CREAT, 0600);
  if (ftruncate(file, 4096)) return 2;
  char* shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED) return 2;
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, shared + 64 * i);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}
