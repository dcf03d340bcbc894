// What each signal does and which are blocked, in the main thread and in another; then handles SIGUSR1, SIGUSR2 and SIGRTMIN+3
// itself, in the middle of allocations.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show(const char* who) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  for (int i = 1; i <= SIGRTMAX; i++) {
    struct sigaction action;
    if (sigaction(i, NULL, &action)) continue;
    const char* does = action.sa_handler == SIG_DFL ? "default" : action.sa_handler == SIG_IGN ? "ignored" : "handled";
    printf("%s %d %s %d %x\n", who, i, does, sigismember(&blocked, i), action.sa_flags);
  }
}

static volatile sig_atomic_t handled;
static void handle(int number) {
  (void)number;
  handled++;
}

static void* work(void* nothing) {
  for (int i = 0; i < 20000; i++) free(malloc((size_t)i));
  show("thread");
  return nothing;
}

int main(void) {
  show("main");
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handle;
  const int mine[] = {SIGUSR1, SIGUSR2, SIGRTMIN + 3};
  for (int i = 0; i < 3; i++) sigaction(mine[i], &action, NULL);
  for (int i = 0; i < 3000; i++) {
    void* block = malloc((size_t)i);
    raise(mine[i % 3]);
    free(block);
  }
  printf("handled %d\n", (int)handled);
  return 0;
}
