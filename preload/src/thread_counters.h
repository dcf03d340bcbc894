// What a thread counts of its calls (modes count and full): how often each entry point was called and how large the blocks
// were.
//
// Cost: three increments in the thread's own memory, one for a free. Each is one instruction, so a signal handler in between
// loses nothing.
#pragma once
#include "heapspy/format/layout.h"
#include "heapspy/format/record.h"
#include "hot.h"
#include "thread_state.h"

namespace heapspy {

constexpr format::Call call_of(format::Operation operation) {
  switch (operation) {
    case format::Operation::calloc: return format::Call::calloc;
    case format::Operation::operator_new: return format::Call::operator_new;
    case format::Operation::realloc_new: return format::Call::realloc_new;
    case format::Operation::realloc_end: return format::Call::reallocation;
    default: return format::Call::malloc;
  }
}
constexpr format::Call call_of(format::Origin origin) {
  switch (origin) {
    case format::Origin::calloc: return format::Call::calloc;
    case format::Origin::realloc: return format::Call::realloc_new;
    case format::Origin::aligned: return format::Call::aligned;
    case format::Origin::operator_new: return format::Call::operator_new;
    case format::Origin::operator_new_aligned: return format::Call::operator_new_aligned;
    default: return format::Call::malloc;
  }
}
constexpr format::Call call_of(format::Release release) {
  return release == format::Release::operator_delete ? format::Call::operator_delete : format::Call::free;
}

// The number of bits of the size of a block that there is (so below 2^63).
HEAPSPY_HOT uint32_t size_class(uint64_t size) {
  const uint32_t bits = 63u - static_cast<uint32_t>(__builtin_clzll(size << 1 | 1));
  if (__builtin_constant_p(size < format::kShortSizeLimit) && size < format::kShortSizeLimit) return bits;
  return bits < format::kCountedSizes ? bits : format::kCountedSizes - 1;
}
HEAPSPY_HOT void count(format::ThreadCounters& counters, format::Call call) { counters.calls[static_cast<uint32_t>(call)]++; }
HEAPSPY_HOT void count(format::ThreadCounters& counters, format::Call call, uint64_t size) {
  // realloc(p, 0) that returns a block is neither a reallocation nor a free (mimalloc).
  counters.calls[static_cast<uint32_t>(call)] += call != format::Call::reallocation || size != 0;
  const uint32_t at = size_class(size);
  counters.allocations[at] += call != format::Call::reallocation;
  counters.bytes[at] += size;
}
// What a short record of an allocation or a reallocation says.
HEAPSPY_HOT void count_short(format::ThreadCounters& counters, uint64_t word) {
  constexpr format::Call kCalls[8] = {call_of(format::Operation{0}), call_of(format::Operation{1}),
                                      call_of(format::Operation{2}), call_of(format::Operation{3}),
                                      call_of(format::Operation{4}), call_of(format::Operation{5}),
                                      call_of(format::Operation{6}), call_of(format::Operation{7})};
  count(counters, kCalls[word & 7], word >> format::kSizeShift & (format::kShortSizeLimit - 1));
}
// What any record says; nothing where the thread does not count.
HEAPSPY_COLD void count_record(const ThreadState& thread, const uint64_t* words);

}  // namespace heapspy
