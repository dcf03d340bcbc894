// w5: blocks of 1 KiB, then one of 1 byte, then all but the byte are freed: with the default 500 000 blocks, 520 MB stay
// behind one byte. Mostly page faults and glibc's consolidation. Argument: blocks.
#include "workload.h"

int main(int argc, char** argv) {
  const long blocks = argument(argc, argv, 1, 500000);
  char** block = malloc((size_t)blocks * sizeof *block);
  const double start = seconds_now();
  for (long i = 0; i < blocks; i++) {
    block[i] = malloc(1024);
    memset(block[i], 1, 1024);
  }
  char* plug = malloc(1);
  *plug = 1;
  KEEP(plug);
  for (long i = 0; i < blocks; i++) free(block[i]);
  print_result("w5", 2.0 * (double)blocks + 1, seconds_now() - start);
  return 0;
}
