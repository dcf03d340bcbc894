// 300 threads, one after another, that end by the exit system call: no destructor runs, nobody is told. Each makes 10 mallocs
// and 4 frees.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void* work(void* nothing) {
  pthread_setname_np(pthread_self(), "t-raw");
  void* blocks[10];
  for (int i = 0; i < 10; i++) blocks[i] = malloc(32);
  for (int i = 0; i < 4; i++) free(blocks[i]);
  syscall(SYS_exit, 0);
  return nothing;
}

int main(void) {
  for (int i = 0; i < 300; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
  }
  return 0;
}
