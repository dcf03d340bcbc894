// Frees 100 MB of 1 KiB blocks beneath one that lives, says "ready" and then, until its stdin ends:
//   threaded  does nothing, in two threads
//   silent    the same, and the second thread never allocated
//   loop      allocates, in one thread
//   idle      does nothing, in one thread
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void* wait_for_end(void* threaded) {
  if (threaded) free(malloc(10));
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  return NULL;
}

static void fill(void) {
  enum { kBlocks = 100000, kBytes = 1000 };
  static void* blocks[kBlocks];
  for (int i = 0; i < kBlocks; i++) {
    blocks[i] = malloc(kBytes);
    memset(blocks[i], 1, kBytes);
  }
  void* plug = malloc(kBytes);
  memset(plug, 2, kBytes);
  for (int i = 0; i < kBlocks; i++) free(blocks[i]);
}

int main(int count, char** arguments) {
  if (count < 2) return 2;
  pthread_t thread;
  const int threaded = !strcmp(arguments[1], "threaded"), silent = !strcmp(arguments[1], "silent");
  if (threaded || silent) pthread_create(&thread, NULL, wait_for_end, threaded ? &thread : NULL);
  fill();
  if (write(1, "ready\n", 6) != 6) return 3;
  if (!strcmp(arguments[1], "loop")) {
    // At a leisurely rate: a picture of this is to be had in a moment.
    for (struct pollfd end = {0, POLLIN, 0}; poll(&end, 1, 1) == 0;)
      for (int i = 0; i < 100; i++) free(malloc(50));
  } else if (threaded || silent) {
    pthread_join(thread, NULL);
  } else {
    wait_for_end(NULL);
  }
  return 0;
}
