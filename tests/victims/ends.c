// A thread makes 20 000 mallocs of 32 bytes and frees 5000 of them; then the process ends as it was told.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void* blocks[20000];

static void* work(void* nothing) {
  pthread_setname_np(pthread_self(), "t-ends");
  for (int i = 0; i < 20000; i++) blocks[i] = malloc(32);
  for (int i = 0; i < 5000; i++) free(blocks[i]);
  return nothing;
}

static volatile int deep = 1;
static int overflow(int depth) {
  volatile char frame[4096];
  frame[0] = (char)depth;
  return deep ? overflow(depth + 1) + frame[0] : 0;
}

static void* exit_from_thread(void* nothing) {
  exit(5);
  return nothing;
}

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const char* how = arguments[1];
  const struct rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  if (!strcmp(how, "return")) return 5;
  if (!strcmp(how, "exit")) exit(5);
  if (!strcmp(how, "_exit")) _exit(5);
  if (!strcmp(how, "_Exit")) _Exit(5);
  if (!strcmp(how, "quick_exit")) quick_exit(5);
  if (!strcmp(how, "exit_group")) syscall(SYS_exit_group, 5);
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "SIGKILL")) raise(SIGKILL);
  if (!strcmp(how, "SIGTERM")) raise(SIGTERM);
  if (!strcmp(how, "SIGSEGV")) raise(SIGSEGV);
  if (!strcmp(how, "stack")) return overflow(0);
  if (!strcmp(how, "thread")) {
    pthread_create(&thread, NULL, exit_from_thread, NULL);
    pthread_join(thread, NULL);
  }
  return 3;
}
