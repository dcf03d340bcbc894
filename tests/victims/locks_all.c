// A heap that could be trimmed, had the program not locked it: 30 MiB of small blocks, of which the last one stays.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kBlocks = 30000, kBytes = 1024 };
static char* blocks[kBlocks];

int main(void) {
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return 77;
  for (int i = 0; i < kBlocks; i++) memset(blocks[i] = malloc(kBytes), 1, kBytes);
  for (int i = 0; i < kBlocks - 1; i++) free(blocks[i]);
  puts("ready");
  fflush(stdout);
  struct pollfd input = {0, POLLIN, 0};
  while (poll(&input, 1, 1) == 0) free(malloc(2000));  // the recorder acts within a call
  return 0;
}
