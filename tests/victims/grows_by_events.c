// 200 000 blocks of 512 bytes, touched and kept: a hundred MiB, so snapshots at many peaks between many full rings.
#include <stdlib.h>
#include <string.h>

int main(void) {
  for (int i = 0; i < 200000; i++) {
    char* block = malloc(512);
    if (!block) return 1;
    memset(block, 1, 512);
  }
  return 0;
}
