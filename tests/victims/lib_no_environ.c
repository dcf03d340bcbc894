// Takes the environment away before the recorder starts, then makes the first allocation.
#include <stdlib.h>
#include <unistd.h>

extern char** environ;

__attribute__((constructor)) static void first(void) {
  environ = NULL;
  free(malloc(24));
}
