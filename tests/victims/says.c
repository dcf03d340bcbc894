// Allocates a little in a thread of its own (10 mallocs of 100 bytes, 9 frees), then says nothing but what it was told.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void* left;

static void* work(void* nothing) {
  pthread_setname_np(pthread_self(), "t-says");
  void* blocks[10];
  for (int i = 0; i < 10; i++) blocks[i] = malloc(100);
  for (int i = 1; i < 10; i++) free(blocks[i]);
  left = blocks[0];
  return nothing;
}

int main(int count, char** arguments) {
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  for (int i = 1; i < count; i++) {
    const size_t length = strlen(arguments[i]);
    if (write(1, arguments[i], length) != (ssize_t)length || write(1, "\n", 1) != 1) return 1;
  }
  return 0;
}
