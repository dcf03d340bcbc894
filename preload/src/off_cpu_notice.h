// Tells for free whether the thread has been off the CPU since it last armed the notice.
//
// glibc registers a struct rseq for every thread (since 2.35, at thread pointer + __rseq_offset; rseq(2), linux/rseq.h).
// Whenever the kernel deschedules a thread it zeroes the area's rseq_cs, unless the thread is inside the range that rseq_cs
// describes. Ours describes a range that is never executed, so the word stays as armed exactly while the thread stays on its
// CPU. A program that uses rseq itself overwrites the word: that looks like an interruption and costs a stamp, no more.
#pragma once
#include <cstdint>

#include "thread_state.h"

namespace heapspy::off_cpu_notice {

struct alignas(32) Descriptor {  // struct rseq_cs of linux/rseq.h
  uint32_t version, flags;
  uint64_t start, length, abort;
};
extern Descriptor descriptor __attribute__((visibility("hidden")));
// Once, before the first arm(). False where the kernel or libc has no rseq: then arm() always holds.
bool set_up();

// rseq_cs of the calling thread, or Tls::no_rseq where there is no rseq area.
volatile uint64_t* word_of_this_thread();

inline uint64_t armed_value() { return reinterpret_cast<uint64_t>(&descriptor); }
inline bool stayed_on_cpu(volatile uint64_t* word) { return *word == armed_value(); }
inline void arm(volatile uint64_t* word) { *word = armed_value(); }

}  // namespace heapspy::off_cpu_notice
