// w1: malloc(64) and free at once: the best case of glibc's thread cache, so the worst ratio for a recorder.
// Argument: pairs (default 20 000 000).
#include "workload.h"

int main(int argc, char** argv) {
  const long pairs = argument(argc, argv, 1, 20000000);
  const double start = seconds_now();
  for (long i = 0; i < pairs; i++) {
    void* block = malloc(64);
    KEEP(block);
    free(block);
  }
  print_result("w1", 2.0 * (double)pairs, seconds_now() - start);
  return 0;
}
