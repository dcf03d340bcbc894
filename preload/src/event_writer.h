// From an event to words in the thread's staging ring: the hot path of every hook.
//
// Cost: one compare of position and limit, one of the off-CPU word, one add, one store. No clock, no lock, no branch that
// data decides. Everything rare is one cold call away.
#pragma once
#include <cstdint>

#include "heapspy/format/encode.h"
#include "off_cpu_notice.h"
#include "thread_state.h"

#define HEAPSPY_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

namespace heapspy {

// Makes room and writes what is due before the next event: registers the thread, begins a forked child's trace, appends a
// full half, stamps the time. nullptr: this event is not to be stored (it is counted as lost where that is so).
[[gnu::cold, gnu::noinline]] ThreadState* make_room();

// Takes `words` places. One instruction on x86-64, so that a signal handler that allocates in between gets places of its own.
[[gnu::always_inline]] inline uint64_t claim(ThreadState& thread, uint64_t words) {
#if defined(__x86_64__)
  uint64_t at = words;
  asm volatile("xaddq %0, %1" : "+r"(at), "+m"(thread.position) : : "cc");
  return at;
#else
  return __atomic_fetch_add(&thread.position, words, __ATOMIC_RELAXED);
#endif
}

// The lap bit makes the end of the valid words visible in the file itself, whatever kills the process (layout.h).
[[gnu::always_inline]] inline void put(ThreadState& thread, uint64_t at, uint64_t word) {
  const uint64_t lap = ~(at >> thread.lap_shift) << 63;
  // volatile: the stores reach memory in program order, which on x86-64 is the order in which the file gets them.
  *const_cast<volatile uint64_t*>(&thread.words[at & thread.mask]) = word | lap;
}

[[gnu::always_inline]] inline ThreadState* writable_thread() {
  ThreadState* thread = tls.state;
  // `position` before the off-CPU word: in a wiped or unborn state nothing else may be looked at.
  if (HEAPSPY_UNLIKELY(thread->position >= thread->limit || !off_cpu_notice::stayed_on_cpu())) return make_room();
  return thread;
}

[[gnu::always_inline]] inline void write_word(uint64_t word) {
  ThreadState* thread = writable_thread();
  if (HEAPSPY_UNLIKELY(!thread)) return;
  put(*thread, claim(*thread, 1), word);
}

// A record of several words. The limit leaves room for the longest.
[[gnu::cold, gnu::noinline]] void write_words(const uint64_t* words, uint32_t count);

[[gnu::cold, gnu::noinline]] void write_long_allocation(format::Origin origin, unsigned log2_alignment, uint64_t address,
                                                        uint64_t size);
[[gnu::cold, gnu::noinline]] void write_long_release(format::Release release, uint64_t address);
[[gnu::cold, gnu::noinline]] void write_long_realloc_begin(uint64_t address);
[[gnu::cold, gnu::noinline]] void write_long_realloc_end(uint64_t address, uint64_t size);
[[gnu::cold, gnu::noinline]] void write_failed(format::Origin origin, uint64_t size);
[[gnu::cold, gnu::noinline]] void write_realloc_failed(uint64_t size);
[[gnu::cold, gnu::noinline]] void write_realloc_freed();

// `operation`: the short form of `origin`.
[[gnu::always_inline]] inline void write_allocation(format::Operation operation, format::Origin origin, const void* block,
                                                    uint64_t size) {
  const auto address = reinterpret_cast<uint64_t>(block);
  if (HEAPSPY_UNLIKELY(!format::fits_short(address, size))) return write_long_allocation(origin, 0, address, size);
  write_word(format::encode_short(operation, address, size));
}
[[gnu::always_inline]] inline void write_release(format::Release release, const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  if (HEAPSPY_UNLIKELY(!format::fits_short(address, 0))) return write_long_release(release, address);
  write_word(format::encode_short(format::Operation::free, address, static_cast<uint64_t>(release)));
}
[[gnu::always_inline]] inline void write_realloc_begin(const void* block) {
  const auto address = reinterpret_cast<uint64_t>(block);
  if (HEAPSPY_UNLIKELY(!format::fits_short(address, 0))) return write_long_realloc_begin(address);
  write_word(format::encode_short(format::Operation::realloc_begin, address, 0));
}
[[gnu::always_inline]] inline void write_realloc_end(const void* block, uint64_t size) {
  const auto address = reinterpret_cast<uint64_t>(block);
  if (HEAPSPY_UNLIKELY(!format::fits_short(address, size))) return write_long_realloc_end(address, size);
  write_word(format::encode_short(format::Operation::realloc_end, address, size));
}

}  // namespace heapspy
