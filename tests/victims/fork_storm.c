// Forks 300 times while 8 threads ("t-storm") allocate, 2000 mallocs each for every fork, all freed. Every child makes 10
// mallocs and 4 frees and sets a variable; every third one then executes "says", the others _exit. Prints the pid of each
// child; dies if one fails.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kForks = 300, kThreads = 8, kMallocs = 2000 };
static pthread_barrier_t barrier;

static void* work(void* argument) {
  unsigned seed = (unsigned)(size_t)argument;
  pthread_setname_np(pthread_self(), "t-storm");
  void* blocks[50];
  for (int i = 0; i < kForks; i++) {
    pthread_barrier_wait(&barrier);  // now the main thread forks
    for (int made = 0; made < kMallocs; made += 50) {
      for (int k = 0; k < 50; k++) blocks[k] = malloc(1 + (seed = seed * 1664525 + 1013904223) % 2000);
      for (int k = 0; k < 50; k++) free(blocks[k]);
    }
  }
  return NULL;
}

static void child(int number, char* program) {
  void* blocks[10];
  for (int i = 0; i < 10; i++) blocks[i] = malloc(100);
  for (int i = 0; i < 4; i++) free(blocks[i]);
  setenv("CHILD", "of the storm", 1);
  if (number % 3 == 0) execl(program, program, "hello", NULL);
  _exit(0);
}

int main(int count, char** arguments) {
  if (count < 2) return 2;
  pthread_t threads[kThreads];
  pthread_barrier_init(&barrier, NULL, kThreads + 1);
  for (size_t i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, work, (void*)(i + 1));
  for (int i = 0; i < kForks; i++) {
    pthread_barrier_wait(&barrier);
    const pid_t pid = fork();
    if (pid == 0) child(i, arguments[1]);
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0) return 3;
    printf("%d\n", (int)pid);
  }
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  return 0;
}
