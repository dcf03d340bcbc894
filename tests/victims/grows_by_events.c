// 200 000 blocks of 512 bytes, touched and kept: a hundred MiB, and a snapshot after each ten thousand, between full rings.
#include <stdlib.h>
#include <string.h>

#include "heapspy/control.h"

int main(void) {
  for (int i = 0; i < 200000; i++) {
    char* block = malloc(512);
    if (!block) return 1;
    memset(block, 1, 512);
    if (i % 10000 == 0) heapspy_snapshot();
  }
  return 0;
}
