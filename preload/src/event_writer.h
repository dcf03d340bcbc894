// From an event to words in the thread's staging ring: the hot path of every hook in the modes full and ring.
//
// Cost: a compare of next and limit, one of the off-CPU word, an add, a store. No clock, no lock, no branch that data
// decides. Whatever is rare ends the function in a call of a cold one.
#pragma once
#include <cstdint>

#include "heapspy/format/encode.h"
#include "hot.h"
#include "off_cpu_notice.h"
#include "thread_counters.h"

namespace heapspy {

// Does what is due before the next event: registers the thread, begins a forked child's trace, appends a full ring, stamps
// the time. nullptr: this event is not to be stored (where that is a loss, it is counted). Leaves errno alone.
// `in_free`: no thread may be started now. glibc frees what belonged to a thread's stack while it holds the lock that
// pthread_create takes (nptl/nptl-stack.c, __nptl_free_stacks), so the program would wait for itself.
HEAPSPY_COLD ThreadState* make_room(bool in_free = false);

// True where the next word can be written at once. `limit` first: in a state without room nothing else may be looked at.
HEAPSPY_HOT bool has_room(const ThreadState& thread) {
  return __builtin_expect(thread.next < thread.limit, 1) &&
         __builtin_expect(*thread.on_cpu == off_cpu_notice::armed_value(), 1);
}

// False where the thread's memory was wiped: a signal handler has forked, and this is the child.
HEAPSPY_HOT bool has_words(const ThreadState& thread) {
  return *const_cast<uint64_t* const volatile*>(&thread.next) != nullptr;
}

// Takes `words` places. One instruction on x86-64, so that a signal handler that allocates in between gets places of its own.
HEAPSPY_HOT uint64_t* claim(ThreadState& thread, uint64_t words) {
#if defined(__x86_64__)
  auto at = reinterpret_cast<uint64_t*>(words * 8);
  asm volatile("xaddq %0, %1" : "+r"(at), "+m"(thread.next) : : "cc");
  return at;
#else
  return __atomic_fetch_add(&thread.next, words * 8, __ATOMIC_RELAXED);
#endif
}

// The lap bit makes the end of the valid words visible in the file itself, whatever kills the process (layout.h). volatile:
// the stores leave in program order, and x86-64 keeps it.
HEAPSPY_HOT void put(const ThreadState& thread, uint64_t* at, uint64_t word) {
  *const_cast<volatile uint64_t*>(at) = word | thread.lap;
}

// A record of one or several words, wherever the thread stands. The limit leaves room for the longest.
HEAPSPY_COLD void write_words(const uint64_t* words, uint32_t count);

// Cold ends of the functions below. They hand the block on, so that a hook ends in them without a frame of its own.
HEAPSPY_COLD void* make_room_then_write(uint64_t word, void* block);
HEAPSPY_COLD void make_room_then_write_and_free(uint64_t word, void* block, void (*free)(void*));
HEAPSPY_COLD void* write_long_allocation(format::Origin origin, unsigned log2_alignment, void* block, uint64_t size);
HEAPSPY_COLD void write_long_release_and_free(format::Release release, void* block, void (*free)(void*));
HEAPSPY_COLD void write_long_realloc_begin(void* block);
HEAPSPY_COLD void* write_long_realloc_end(void* block, uint64_t size);
HEAPSPY_COLD void* write_failed(format::Origin origin, uint64_t size);  // nullptr
HEAPSPY_COLD void* write_realloc_without_block(uint64_t size);          // nullptr; freed where size is 0, else failed

// The log of the modes full and ring (entry_points.h). `counts`: mode full, whose threads count besides what they have written.
template <bool counts>
struct EventLog {
  // A block that an entry point returned. `operation` is the short form of `origin`.
  static HEAPSPY_HOT void* allocation(format::Operation operation, format::Origin origin, void* block, uint64_t size) {
    const auto address = reinterpret_cast<uint64_t>(block);
    if (HEAPSPY_UNLIKELY(!block)) return write_failed(origin, size);
    if (HEAPSPY_UNLIKELY(!format::fits_short(address, size))) return write_long_allocation(origin, 0, block, size);
    const uint64_t word = format::encode_short(operation, address, size);
    ThreadState& thread = *tls.state;
    if (!has_room(thread)) return make_room_then_write(word, block);
    put(thread, claim(thread, 1), word);
    if constexpr (counts) count(*thread.counters, call_of(operation), size);
    return block;
  }

  static void* aligned_allocation(format::Origin origin, unsigned log2_alignment, void* block, uint64_t size) {
    return block ? write_long_allocation(origin, log2_alignment, block, size) : write_failed(origin, size);
  }

  // The free of `block`, then `free(block)`.
  static HEAPSPY_HOT void release_and_free(format::Release release, void* block, void (*free)(void*)) {
    const auto address = reinterpret_cast<uint64_t>(block);
    if (HEAPSPY_UNLIKELY(!format::fits_short(address, 0))) return write_long_release_and_free(release, block, free);
    const uint64_t word = format::encode_short(format::Operation::free, address, static_cast<uint64_t>(release));
    ThreadState& thread = *tls.state;
    if (!has_room(thread)) return make_room_then_write_and_free(word, block, free);
    put(thread, claim(thread, 1), word);
    if constexpr (counts) count(*thread.counters, call_of(release));
    return free(block);
  }

  // Before realloc of a block; what it returns is handed to realloc_end, after it.
  static HEAPSPY_HOT bool realloc_begin(void* block) {
    const auto address = reinterpret_cast<uint64_t>(block);
    if (HEAPSPY_UNLIKELY(!format::fits_short(address, 0))) return write_long_realloc_begin(block), true;
    const uint64_t word = format::encode_short(format::Operation::realloc_begin, address, 0);
    ThreadState& thread = *tls.state;
    if (!has_room(thread))
      make_room_then_write(word, block);
    else
      put(thread, claim(thread, 1), word);
    return true;
  }

  static HEAPSPY_HOT void* realloc_end(bool, uintptr_t, void* block, uint64_t size) {
    const auto address = reinterpret_cast<uint64_t>(block);
    if (HEAPSPY_UNLIKELY(!block)) return write_realloc_without_block(size);
    if (HEAPSPY_UNLIKELY(!format::fits_short(address, size))) return write_long_realloc_end(block, size);
    const uint64_t word = format::encode_short(format::Operation::realloc_end, address, size);
    ThreadState& thread = *tls.state;
    if (!has_room(thread)) return make_room_then_write(word, block);
    put(thread, claim(thread, 1), word);
    if constexpr (counts) count(*thread.counters, format::Call::reallocation, size);
    return block;
  }

  static void* failed(format::Origin origin, uint64_t size) { return write_failed(origin, size); }
};

}  // namespace heapspy
