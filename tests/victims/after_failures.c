// Allocates until it is given a block, then says so. Every failure must have been ENOMEM.
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
  for (int i = 0; i < 100; i++) {
    errno = 0;
    void* block = malloc(100);
    if (block) {
      free(block);
      return write(1, "given\n", 6) != 6;
    }
    if (errno != ENOMEM) return 2;
  }
  return 3;
}
