// A plugin that leaks and is unloaded; it is stripped after it was built.
#include <stdlib.h>

void leaky_run(void);

static void* volatile kept;

static __attribute__((noinline)) void take(int blocks) {
  while (blocks--) kept = malloc(3000);  // leak: plugin
}

void leaky_run(void) {
  take(5);
  kept = NULL;
}
