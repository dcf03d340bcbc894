// Allocates on stacks as small as they may be, while the process grows to 60 MB, so that a recorder takes its pictures then:
//   threads     16 threads of PTHREAD_STACK_MIN
//   coroutines  in the only thread, 16 contexts of 8 KiB each with a page beneath that may not be touched
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { kWorkers = 16, kLeft = 40, kBytes = 100000, kStack = 8192, kPage = 4096 };

static void* left[kWorkers][kLeft];

static void work(int number) {
  for (int i = 0; i < kLeft; i++) {
    left[number][i] = malloc(kBytes);
    memset(left[number][i], 1, kBytes);
    for (int k = 0; k < 5000; k++) free(malloc(64));
  }
}

static void* thread_begins(void* argument) {
  pthread_setname_np(pthread_self(), "t-small");
  work((int)(size_t)argument);
  return NULL;
}

static int by_threads(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN))) return 3;
  pthread_t threads[kWorkers];
  for (size_t i = 0; i < kWorkers; i++)
    if (pthread_create(&threads[i], &attributes, thread_begins, (void*)i)) return 4;
  for (int i = 0; i < kWorkers; i++) pthread_join(threads[i], NULL);
  return 0;
}

static ucontext_t back, coroutine;

static int by_coroutines(void) {
  for (int i = 0; i < kWorkers; i++) {
    char* stack = mmap(NULL, kPage + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, kPage, PROT_NONE)) return 5;
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack + kPage;
    coroutine.uc_stack.ss_size = kStack;
    coroutine.uc_link = &back;
    makecontext(&coroutine, (void (*)(void))work, 1, i);
    swapcontext(&back, &coroutine);
  }
  return 0;
}

int main(int count, char** arguments) {
  if (count < 2) return 2;
  return strcmp(arguments[1], "threads") == 0 ? by_threads() : by_coroutines();
}
