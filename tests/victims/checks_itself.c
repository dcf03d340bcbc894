// Threads that allocate without rest and look whether anything happened to them: every block holds what was written into it,
// calls that are interrupted and started again (read, nanosleep, poll) never say EINTR, registers survive a system call, and a
// timer's signals arrive. Until its input ends; then it writes what it did. Ends at once with status 1 where something is
// wrong.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { kAllocating = 4, kBlocks = 2000 };
static atomic_bool over;
static atomic_ulong blocks_checked, sleeps, polls, reads, calls, ticks;
static int pipes[2];

static void harmed(const char* what) {
  dprintf(1, "harmed: %s\n", what);
  _exit(1);
}

static void* allocates(void* number) {
  uint64_t state = (uintptr_t)number * 0x9E3779B97F4A7C15ull | 1;
  static _Thread_local struct {
    unsigned char* block;
    size_t bytes;
    unsigned char mark;
  } held[kBlocks];
  while (!over) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const unsigned at = state % kBlocks;
    for (size_t i = 0; held[at].block && i < held[at].bytes; i++)
      if (held[at].block[i] != held[at].mark) harmed("a block was changed");
    free(held[at].block);
    held[at].bytes = 1 + (state >> 20) % ((state >> 40) % 50 ? 2000 : 60000);
    held[at].mark = (unsigned char)(state >> 33);
    held[at].block = memset(malloc(held[at].bytes), held[at].mark, held[at].bytes);
    blocks_checked++;
    if (state % 128 == 0 && write(pipes[1], "x", 1) != 1) harmed("write");
  }
  return NULL;
}
static void* reads_pipe(void* unused) {
  char buffer[64];
  for (; !over; reads++)
    if (read(pipes[0], buffer, sizeof buffer) < 1) harmed("read was interrupted");
  return unused;
}
static void* naps(void* unused) {
  const struct timespec nap = {0, 3000000};
  for (; !over; sleeps++)
    if (nanosleep(&nap, NULL)) harmed("nanosleep was interrupted");
  return unused;
}
static void* polls_nothing(void* unused) {
  for (; !over; polls++)
    if (poll(NULL, 0, 5)) harmed("poll was interrupted");
  return unused;
}

#if defined(__x86_64__)
// getppid by libc's syscall(), which touches none of these registers.
static void* keeps_registers(void* unused) {
  static const uint64_t before[4] = {0x1111222233334444, 0x5555666677778888, 0x9999aaaabbbbcccc, 0xddddeeeeffff0001};
  for (; !over; calls++) {
    uint64_t after[4] = {0}, kept = 0;
    register uint64_t number __asm__("rdi") = SYS_getppid;
    __asm__ volatile(
        "movdqu %3, %%xmm5\n movdqu 16+%3, %%xmm15\n mov $0x1234567, %%r12\n"
        "call *%4\n"
        "movdqu %%xmm5, %0\n movdqu %%xmm15, 16+%0\n mov %%r12, %1\n"
        : "=m"(after), "=m"(kept), "+r"(number)
        : "m"(before), "r"(syscall)
        : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "xmm5", "xmm15", "cc", "memory");
    if (memcmp(before, after, sizeof after) || kept != 0x1234567) harmed("registers were changed");
  }
  return unused;
}
#endif

static void count_tick(int signal) {
  (void)signal;
  ticks++;
}

int main(void) {
  struct sigaction action = {.sa_handler = count_tick, .sa_flags = SA_RESTART};
  pthread_t thread;
  sigset_t alarm;
  if (pipe(pipes)) return 2;
  sigaction(SIGALRM, &action, NULL);
  // Only the main thread takes the timer's signal: it would end a nap or a poll of another by right.
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, NULL);
  for (uintptr_t i = 1; i <= kAllocating; i++) pthread_create(&thread, NULL, allocates, (void*)i);
  pthread_create(&thread, NULL, reads_pipe, NULL);
  pthread_create(&thread, NULL, naps, NULL);
  pthread_create(&thread, NULL, polls_nothing, NULL);
#if defined(__x86_64__)
  pthread_create(&thread, NULL, keeps_registers, NULL);
#endif
  pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
  const struct itimerval every = {{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &every, NULL);
  if (write(1, "ready\n", 6) != 6) return 2;
  char byte;
  if (read(0, &byte, 1) != 0) harmed("the main thread's read");
  over = 1;
  printf("blocks %lu, reads %lu, sleeps %lu, polls %lu, calls %lu, ticks %lu\n", blocks_checked, reads, sleeps, polls, calls,
         ticks);
  fflush(stdout);
  _exit(0);
}
