// The time that allocators are told: the recorded moment of the call that is played, at a pace that can be changed. What they
// do by the clock (jemalloc's and mimalloc's decay) they do as in the program, at any speed of the replay.
#pragma once
#include <stdint.h>

namespace heapspy::trial::played_time {

void begin(double pace);  // from now on clock_gettime() tells it; `pace`: 2 makes the program take twice as long

// In the .cpp it begins as a constant. NOLINTNEXTLINE(bugprone-dynamic-static-initializers)
extern uint64_t recorded_us;
inline void set(uint64_t us) { __atomic_store_n(&recorded_us, us, __ATOMIC_RELAXED); }

}  // namespace heapspy::trial::played_time
