// Grows to 200 MB of blocks that are touched, stays there for a second in which it allocates now and then (a recorder that was
// busy meanwhile has time to look), then frees them and goes on for a tenth of a second.
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void allocate_for(double length) {
  for (const double end = seconds() + length; seconds() < end; poll(NULL, 0, 1))
    for (int i = 0; i < 100; i++) free(malloc(100));
}

int main(void) {
  free(malloc(100));  // this one is used over and over, from beneath the others
  enum { kBlocks = 2000, kBytes = 100000 };
  static void* blocks[kBlocks];
  for (int i = 0; i < kBlocks; i++) {
    blocks[i] = malloc(kBytes);
    memset(blocks[i], 1, kBytes);
  }
  allocate_for(1);
  for (int i = 0; i < kBlocks; i++) free(blocks[i]);
  allocate_for(0.1);
  return 0;
}
