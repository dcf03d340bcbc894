// Frees 100 MB of 1 KiB blocks beneath one that lives, says "ready" and then, until its stdin ends:
//   threaded  does nothing, in two threads
//   loop      allocates, in one thread
//   idle      does nothing, in one thread
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void* wait_for_end(void* nothing) {
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  return nothing;
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
  const int threaded = !strcmp(arguments[1], "threaded");
  if (threaded) pthread_create(&thread, NULL, wait_for_end, NULL);
  fill();
  if (write(1, "ready\n", 6) != 6) return 3;
  if (!strcmp(arguments[1], "loop")) {
    fcntl(0, F_SETFL, O_NONBLOCK);
    char byte;
    while (read(0, &byte, 1) != 0)
      for (int i = 0; i < 100; i++) free(malloc(50));
  } else if (threaded) {
    pthread_join(thread, NULL);
  } else {
    wait_for_end(NULL);
  }
  return 0;
}
