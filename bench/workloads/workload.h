// What the workloads share: a clock, a fast random generator, a barrier for the optimiser, and the line of results.
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// CLOCK_MONOTONIC in seconds.
static inline double seconds_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// xorshift64: the same row on every machine, and cheap beside malloc. `state` must not be 0.
static inline uint64_t next_random(uint64_t* state) {
  uint64_t value = *state;
  value ^= value << 13;
  value ^= value >> 7;
  value ^= value << 17;
  return *state = value;
}

// Makes the compiler believe that `pointer` and what it points to are used.
#define KEEP(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

static inline long argument(int argc, char** argv, int index, long fallback) {
  return argc > index ? atol(argv[index]) : fallback;
}

// One line on stdout. A malloc is one event, a free is one; `seconds` is the measured part only.
static inline void print_result(const char* name, double events, double seconds) {
  printf("%s events=%.0f seconds=%.6f ns_per_event=%.2f\n", name, events, seconds, seconds * 1e9 / events);
}
