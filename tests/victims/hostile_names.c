// A thread whose name is as hostile as the kernel lets it be, and the number of bytes of the command line on stdout.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* work(void* unused) {
  pthread_setname_np(pthread_self(), "\033]0;x\a</td>\xff\xc3");
  for (int i = 0; i < 7; i++) free(malloc(100));
  return unused;
}

int main(int count, char** arguments) {
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  size_t bytes = 0;
  for (int i = 0; i < count; i++) bytes += strlen(arguments[i]) + 1;
  printf("%zu\n", bytes - strlen(arguments[0]) - 1);
  return 0;
}
