// Starts a program 100 times by posix_spawn, by vfork and exec, and vforks children that only _exit; between, it allocates: 300
// mallocs of 88 bytes in a thread of its own, all freed. The children get no LD_PRELOAD.
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char* program;

static int wait_for(pid_t pid, int right) {
  int status;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == right;
}

static void* work(void* nothing) {
  pthread_setname_np(pthread_self(), "t-spawns");
  char* arguments[] = {program, NULL};
  char* no_environment[] = {NULL};
  for (int i = 0; i < 100; i++) {
    void* volatile block = malloc(88);
    pid_t pid;
    if (posix_spawn(&pid, program, NULL, NULL, arguments, no_environment) || !wait_for(pid, 0)) abort();
    free(block);
    block = malloc(88);
    if ((pid = vfork()) == 0) {
      execve(program, arguments, no_environment);
      _exit(9);
    }
    if (!wait_for(pid, 0)) abort();
    free(block);
    block = malloc(88);
    if ((pid = vfork()) == 0) _exit(7);
    if (!wait_for(pid, 7)) abort();
    if ((pid = vfork()) == 0) {
      execl("/nonexistent/program", "program", NULL);
      _exit(8);
    }
    if (!wait_for(pid, 8)) abort();
    free(block);
  }
  return nothing;
}

int main(int count, char** arguments) {
  if (count < 2) return 2;
  program = arguments[1];
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  return 0;
}
