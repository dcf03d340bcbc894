#include "played_time.h"

#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "own_memory.h"

namespace heapspy::trial::played_time {

uint64_t recorded_us = 0;

namespace {

uint64_t base_ns = 0;  // of the real clock at the start; 0: not begun
double ns_per_recorded_us = 1000;

}  // namespace

void begin(double pace) {
  ns_per_recorded_us = 1000 * pace;
  base_ns = real_ns();
}

}  // namespace heapspy::trial::played_time

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  using namespace heapspy::trial::played_time;
  if (!base_ns || clock == CLOCK_THREAD_CPUTIME_ID || clock == CLOCK_PROCESS_CPUTIME_ID)
    return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  const uint64_t now_us = __atomic_load_n(&recorded_us, __ATOMIC_RELAXED);
  const uint64_t now_ns = base_ns + static_cast<uint64_t>(static_cast<double>(now_us) * ns_per_recorded_us);
  time->tv_sec = static_cast<time_t>(now_ns / 1000000000u);
  time->tv_nsec = static_cast<long>(now_ns % 1000000000u);
  return 0;
}
