// Room for the next events in a thread's staging ring: the cold path of the event log. Stamps the time, appends a full ring to
// the file (mode full) or leaves it for another (mode ring), and begins the ring's next lap.
#pragma once
#include "thread_state.h"

namespace heapspy::event_room {

// At the start of the process.
void set_up();
bool rseq_works();
// Words between stamps, as a process begins.
uint32_t usual_words_per_stamp();

// What is due before the next word; returns the tick of the stamp it ends with, or kNoRoom: the program has entered a sandbox.
// The thread is shut.
inline constexpr uint64_t kNoRoom = ~0ull;
uint64_t make(ThreadState& thread);
uint64_t stamp(ThreadState& thread);
// A record of the cold path itself: the limit does not count.
void put_words(ThreadState& thread, const uint64_t* words, uint32_t count);

}  // namespace heapspy::event_room
