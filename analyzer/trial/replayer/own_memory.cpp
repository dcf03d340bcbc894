#include "own_memory.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace heapspy::trial {

namespace {

uint64_t mappings = 0;

uint64_t clock_ns(clockid_t clock) {
  timespec time;
  syscall(SYS_clock_gettime, clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

void fail(const char* what) {
  dprintf(STDERR_FILENO, "%s: %s\n", what, strerror(errno));
  _exit(1);
}

void give_up(const char* why) {
  dprintf(STDERR_FILENO, "%s\n", why);
  _exit(1);
}

void* shared_memory(uint64_t bytes) {
  const int fd = memfd_create("heapspy-replayer", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) fail("memory for the replay itself");
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) fail("memory for the replay itself");
  close(fd);
  mappings++;
  return at;
}

uint64_t own_mappings() { return mappings; }

uint64_t real_ns() { return clock_ns(CLOCK_MONOTONIC); }
uint64_t cpu_ns() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

uint64_t voluntary_switches() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_nvcsw);
}

// Not the private kind: that is how lock_waits.h knows an allocator's locks.
bool wait_while(uint32_t* word, uint32_t value) {
  bool slept = false;
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value)
    slept |= syscall(SYS_futex, word, FUTEX_WAIT, value, nullptr, nullptr, 0) == 0;
  return slept;
}

void wake(uint32_t* word, int threads) { syscall(SYS_futex, word, FUTEX_WAKE, threads, nullptr, nullptr, 0); }

}  // namespace heapspy::trial
