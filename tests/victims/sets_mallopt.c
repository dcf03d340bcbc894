// Sets what glibc's malloc does while it runs: two parameters, one that there is not (which glibc takes), one that is refused.
#include <errno.h>
#include <malloc.h>
#include <stdio.h>

int main(void) {
  errno = 6;
  const int arenas = mallopt(M_ARENA_MAX, 2), unknown = mallopt(4711, 1), refused = mallopt(M_MXFAST, 1 << 20);
  const int threshold = mallopt(M_TRIM_THRESHOLD, 1 << 29);
  printf("%d %d %d %d %d\n", arenas, unknown, refused, threshold, errno);
  return 0;
}
