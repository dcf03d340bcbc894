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
extern Descriptor descriptor;
// From the thread pointer to rseq_cs, or to Tls::no_rseq where there is no rseq area. 0 before set_up(): reads the thread
// control block's own address, which never equals the armed value.
extern intptr_t offset;

// Once, before the first arm(). False where the kernel or libc has no rseq: then arm() always holds.
bool set_up();

inline volatile uint64_t& word() {
  return *reinterpret_cast<volatile uint64_t*>(reinterpret_cast<char*>(__builtin_thread_pointer()) + offset);
}
inline uint64_t armed_value() { return reinterpret_cast<uint64_t>(&descriptor); }
inline bool stayed_on_cpu() { return word() == armed_value(); }
inline void arm() { word() = armed_value(); }

}  // namespace heapspy::off_cpu_notice
