// Large blocks of which known pages are written, in memory that is in RAM already and in fresh memory. Prints the address of
// the last, which lives at the end; ends with status 1 where a block of calloc does not read as zeros or realloc loses bytes.
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kPage = 4096, kBytes = 64 * kPage };

// The first `count` whole pages.
static void write_pages(char* block, int count) {
  char* page = (char*)(((uintptr_t)block + kPage - 1) & ~(uintptr_t)(kPage - 1));
  for (int i = 0; i < count; i++) page[i * kPage + 100 * (i % 2)] = 1, page[i * kPage] = 1;
}

int main(void) {
  mallopt(M_MMAP_THRESHOLD, 1 << 28);  // all of it in the heap, where memory is used again
  mallopt(M_TRIM_THRESHOLD, 1 << 28);

  char* all = malloc(kBytes);
  memset(all, 1, kBytes);
  char* beside = malloc(100);
  free(all);
  char* some = malloc(kBytes);  // where `all` was
  write_pages(some, 3);
  free(some);
  char* none = malloc(kBytes);
  free(none);
  unsigned char* zeros = calloc(1, kBytes);
  for (int i = 0; i < kBytes; i++)
    if (zeros[i]) return 1;
  free(zeros);

  char* grown = malloc(kBytes / 2);
  write_pages(grown, 2);
  memset(grown, 7, 100);
  grown = realloc(grown, kBytes);
  for (int i = 0; i < 100; i++)
    if (grown[i] != 7) return 1;
  free(grown);

  char* fresh = malloc(1 << 24);
  write_pages(fresh, 5);
  free(fresh);
  char* kept = malloc(kBytes);
  write_pages(kept, 2);
  printf("%p\n", (void*)kept);
  free(beside);
  return some == all && none == all ? 0 : 2;
}
