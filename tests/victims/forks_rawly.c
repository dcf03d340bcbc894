// Children that came by fork, by _Fork and by a bare clone: each makes 10 mallocs, frees them and 5 blocks of its parent, and
// ends by _exit. Prints their pids. The parent has made 20 blocks in a thread of its own.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void* inherited[20];

static void* work(void* nothing) {
  pthread_setname_np(pthread_self(), "t-parent");
  for (int i = 0; i < 20; i++) inherited[i] = malloc(100);
  return nothing;
}

static pid_t by_clone(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  pid_t (*const ways[])(void) = {fork, _Fork, by_clone};
  for (int i = 0; i < 3; i++) {
    fflush(stdout);
    const pid_t pid = ways[i]();
    if (pid == 0) {
      void* blocks[10];
      for (int k = 0; k < 10; k++) blocks[k] = malloc(64);
      for (int k = 0; k < 10; k++) free(blocks[k]);
      for (int k = 0; k < 5; k++) free(inherited[k]);
      _exit(0);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0) return 3;
    printf("%d\n", (int)pid);
  }
  return 0;
}
