// Locks all memory that it has and will have, then allocates for a while. Says whether it stayed small: at most 64 MiB.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

int main(void) {
  if (mlockall(MCL_CURRENT | MCL_FUTURE)) return 77;  // not allowed here
  for (int i = 0; i < 300000; i++) free(malloc((size_t)i % 500));
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  // The exit snapshot comes after this; what it needs is seen by who waits for the process.
  puts(usage.ru_maxrss < (64 << 10) ? "small" : "large");
  return 0;
}
