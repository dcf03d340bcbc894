// Churns small blocks in `threads` threads for as long as stdin stays open or `rounds` (given as 2nd argument) last, then does
// what the third argument says: fail, signal, rss, kill, nothing. One block from the start lives to the end and is freed by
// main.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rounds;
static void* volatile kept;

static void* churn(void* name) {
  pthread_setname_np(pthread_self(), name);
  void* slots[64] = {0};
  for (int i = 0; i < rounds; i++) {
    const int at = i % 64;
    free(slots[at]);
    slots[at] = malloc((size_t)(16 + i % 500));
  }
  for (int i = 0; i < 64; i++) free(slots[i]);
  return NULL;
}

int main(int count, char** arguments) {
  if (count < 4) return 2;
  const int threads = atoi(arguments[1]);
  rounds = atoi(arguments[2]);
  const char* what = arguments[3];
  static char names[64][16];
  pthread_t thread[64];
  kept = malloc(12345);
  if (!strcmp(what, "signal")) signal(SIGRTMIN + 5, SIG_IGN);  // another one than the trigger's
  for (int i = 0; i < threads; i++) {
    snprintf(names[i], sizeof names[i], "churn-%d", i);
    pthread_create(&thread[i], NULL, churn, names[i]);
  }
  for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  if (!strcmp(what, "fail")) {
    void* volatile none = malloc((size_t)1 << 62);
    if (none) return 3;
  }
  if (!strcmp(what, "signal")) raise(SIGRTMIN + 3);
  if (!strcmp(what, "rss")) {
    char* large = malloc(64 << 20);
    memset(large, 1, 64 << 20);
    churn("later");
    free(large);
  }
  churn("last");
  if (!strcmp(what, "kill")) kill(getpid(), SIGKILL);
  free(kept);
  puts("done");
  return 0;
}
