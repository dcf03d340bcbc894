// Marks moments, pauses recording, takes a snapshot; says so. Needs no library. `wait`: then waits for the end of its stdin,
// allocating.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "heapspy/control.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* in_thread(void* unused) {
  pthread_setname_np(pthread_self(), "t-marks");
  for (int i = 0; i < 100; i++) free(malloc(48));
  heapspy_mark("from a thread");
  free(malloc(48));
  heapspy_stop();
  heapspy_stop();
  heapspy_mark("while paused");
  for (int i = 0; i < 1000; i++) free(malloc(56));
  heapspy_start();
  heapspy_start();
  for (int i = 0; i < 10; i++) free(malloc(64));
  return unused;
}

int main(int count, char** arguments) {
  heapspy_mark("first");
  heapspy_mark("\033[31mred\n<b>\xff");
  char longer[300];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = 0;
  heapspy_mark(longer);
  heapspy_mark("");
  heapspy_mark(NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, in_thread, NULL);
  pthread_join(thread, NULL);
  heapspy_snapshot();
#ifdef __PIC__
  if (heapspy_mark) heapspy_mark("last");
#else
  heapspy_mark("last");
#endif
  puts("marked");
  fflush(stdout);
  if (count > 1 && !strcmp(arguments[1], "wait"))
    for (struct pollfd end = {0, POLLIN, 0}; poll(&end, 1, 1) == 0;)
      for (int i = 0; i < 100; i++) free(malloc(50));
  return 0;
}
