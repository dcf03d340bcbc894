// 10 000 threads, eight at a time, each with a name and one malloc and free of its own size.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int pthread_setname_np(pthread_t, const char*);

static void* work(void* argument) {
  const uintptr_t number = (uintptr_t)argument;
  char name[16];
  snprintf(name, sizeof name, "short-%05lu", (unsigned long)number);
  pthread_setname_np(pthread_self(), name);
  free(malloc(number));
  return NULL;
}

int main(void) {
  for (uintptr_t i = 1; i <= 10000; i += 8) {
    pthread_t threads[8];
    for (uintptr_t k = 0; k < 8; k++) pthread_create(&threads[k], NULL, work, (void*)(i + k));
    for (int k = 0; k < 8; k++) pthread_join(threads[k], NULL);
  }
  return 0;
}
