// A daemon: changes what it was told about itself when it has been recorded for a while, then makes 200 000 more events in the
// thread that began ("t-daemon": 100 001 mallocs of 40 bytes, all freed) and 100 in a new thread ("t-later").
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char* what;

static int limit(int resource, rlim_t value) {
  const struct rlimit both = {value, value};
  return setrlimit(resource, &both);
}

static int leave_root(void) {
  if (mkdir("jail", 0700)) return 1;
  return chroot("jail") || chdir("/");
}

// Another file in the trace's place.
static int replace_trace(void) {
  if (rename("traces/fixed.hspy", "traces/moved")) return 1;
  const int file = open("traces/fixed.hspy", O_WRONLY | O_CREAT | O_EXCL, 0600);
  return write(file, "mine", 4) != 4 || close(file);
}

static int change(void) {
  if (!strcmp(what, "nothing")) return 0;
  if (!strcmp(what, "chdir")) return chdir("/");
  if (!strcmp(what, "chroot")) return leave_root();
  if (!strcmp(what, "replace")) return replace_trace();
  if (!strcmp(what, "setuid")) return setuid(65534);
  if (!strcmp(what, "fsize")) return limit(RLIMIT_FSIZE, 500 << 10);
  if (!strcmp(what, "fsize0")) return limit(RLIMIT_FSIZE, 0);
  if (!strcmp(what, "as")) return limit(RLIMIT_AS, 1 << 20);
  if (!strcmp(what, "nofile")) return limit(RLIMIT_NOFILE, 3);
  return 1;
}

static void* later(void* nothing) {
  pthread_setname_np(pthread_self(), "t-later");
  for (int i = 0; i < 50; i++) free(malloc(40));
  return nothing;
}

static void* work(void* nothing) {
  pthread_setname_np(pthread_self(), "t-daemon");
  free(malloc(40));
  if (change()) return (void*)4;
  for (int i = 0; i < 100000; i++) free(malloc(40));
  return nothing;
}

int main(int count, char** arguments) {
  if (count < 2) return 2;
  what = arguments[1];
  pthread_t thread;
  void* result;
  if (pthread_create(&thread, NULL, work, NULL)) return 5;
  pthread_join(thread, &result);
  if (result) return (int)(size_t)result;
  // Under RLIMIT_AS there is no room for another stack.
  if (pthread_create(&thread, NULL, later, NULL) == 0) pthread_join(thread, NULL);
  return 0;
}
