// Closes every descriptor, opens files of its own in their place, allocates 200 000 events while it writes to them, and checks
// that the files hold what it wrote. Then once more with close_range.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kFiles = 16, kPairs = 50000 };

static void close_one_by_one(void) {
  for (int i = 0; i < 4096; i++) close(i);
}
static void close_at_once(void) { close_range(0, ~0u, 0); }

static int round_of(void (*close_them)(void), const char* name) {
  int files[kFiles];
  close_them();
  for (int i = 0; i < kFiles; i++) {
    char path[64];
    snprintf(path, sizeof path, "%s-%d", name, i);
    files[i] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (files[i] != i) return 10;
  }
  size_t written = 0;
  for (int i = 0; i < kPairs; i++) {
    free(malloc(64));
    if (i % 1000) continue;
    for (int k = 0; k < kFiles; k++)
      if (write(files[k], "0123456789", 10) != 10) return 11;
    written += 10;
  }
  for (int i = 0; i < kFiles; i++) {
    struct stat status;
    if (fstat(files[i], &status) || (size_t)status.st_size != written) return 12;
    for (size_t at = 0; at < written; at += 10) {
      char back[10];
      if (pread(files[i], back, 10, (off_t)at) != 10 || memcmp(back, "0123456789", 10) != 0) return 13;
    }
  }
  return 0;
}

static void* work(void* nothing) {
  (void)nothing;
  pthread_setname_np(pthread_self(), "t-closes");
  int result = round_of(close_one_by_one, "a");
  if (!result) result = round_of(close_at_once, "b");
  return (void*)(size_t)result;
}

int main(void) {
  pthread_t thread;
  void* result;
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, &result);
  return (int)(size_t)result;
}
