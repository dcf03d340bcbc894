// Allocates, enters seccomp, allocates a lot more, says "lived" and ends. Any system call but read, write, exit, exit_group,
// brk, mmap, munmap (and what the C library's own exit and threads make) is death.
//   strict        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT): read, write, _exit of the thread only
//   filter        by prctl
//   syscall       by syscall(SYS_seccomp), for all threads
//   threaded      by syscall(SYS_seccomp) for all threads, with one more that allocates
//   refused       asks for a filter that the kernel does not take, goes on
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void allocate(int count) {
  for (int i = 0; i < count; i++) {
    void* block = malloc(i % 500 == 499 ? 300000 : 40);
    memset(block, 1, 40);
    free(block);
  }
}

#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define FEW ALLOW(read), ALLOW(write), ALLOW(exit), ALLOW(exit_group), ALLOW(brk), ALLOW(mmap), ALLOW(munmap)
static struct sock_filter rules[] = {NUMBER, FEW, KILL};
// What malloc of several threads needs besides.
static struct sock_filter rules_for_threads[] = {NUMBER, FEW, ALLOW(mprotect), ALLOW(madvise), ALLOW(futex), KILL};
static struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};

static volatile int entered;
static void* works(void* begun) {
  pthread_setname_np(pthread_self(), "t-works");
  sem_post(begun);
  while (!entered) allocate(100);
  allocate(100000);
  entered = 2;
  while (entered) {  // the end of a thread is system calls
  }
  return NULL;
}

int main(int count, char** arguments) {
  const char* how = count > 1 ? arguments[1] : "";
  pthread_setname_np(pthread_self(), "t-sandbox");
  allocate(20000);
  if (!strcmp(how, "threaded")) {
    program = (struct sock_fprog){sizeof rules_for_threads / sizeof rules_for_threads[0], rules_for_threads};
    sem_t begun;
    pthread_t thread;
    sem_init(&begun, 0, 0);
    if (pthread_create(&thread, NULL, works, &begun)) return 2;
    sem_wait(&begun);
  }
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  long failed = 0;
  if (!strcmp(how, "strict"))
    failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  else if (!strcmp(how, "filter"))
    failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  else if (!strcmp(how, "refused"))
    failed = !(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) < 0);
  else
    failed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (failed) return 77;
  entered = 1;
  allocate(strcmp(how, "strict") ? 50000 : 400);  // strict: no mmap, so small ones only
  if (!strcmp(how, "threaded"))
    while (entered != 2) allocate(1);
  if (write(1, "lived\n", 6) != 6) return 3;
  if (!strcmp(how, "strict")) syscall(SYS_exit, 0);
  _exit(0);
}
