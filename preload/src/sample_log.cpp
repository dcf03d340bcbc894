#include "sample_log.h"

#include "recorder.h"
#include "thread_life.h"

namespace heapspy {

using namespace format;

namespace {

// xorshift64* (Vigna 2014); never 0.
uint64_t next_random(ThreadState& thread) {
  uint64_t x = thread.random;
  if (!x) x = (thread.last_tick + thread.id) * 0x9E3779B97F4A7C15ull | 1;  // the thread's first
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  thread.random = x;
  return x * 0x2545F4914F6CDD1Dull;
}

// -ln of a number in (0, 1], from its exponent and the series of atanh; right to a millionth, without libm.
double minus_log(double u) {
  uint64_t bits;
  __builtin_memcpy(&bits, &u, sizeof bits);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
  bits = (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
  double m;  // in [1, 2)
  __builtin_memcpy(&m, &bits, sizeof m);
  const double t = (m - 1) / (m + 1), square = t * t;
  const double log_m =
      2 * t * (1 + square * (1.0 / 3 + square * (1.0 / 5 + square * (1.0 / 7 + square * (1.0 / 9 + square / 11)))));
  return -(exponent * 0.69314718055994531 + log_m);
}

// Bytes to the next sample.
int64_t draw_gap(ThreadState& thread) {
  const double u = static_cast<double>((next_random(thread) >> 11) + 1) * 0x1p-53;
  return static_cast<int64_t>(minus_log(u) * static_cast<double>(options.sample_bytes));
}

// The thread, and whether the next sample of it lies within the `size` bytes that were subtracted.
ThreadState* sampling_thread(uint64_t size) {
  bool fresh = false;
  ThreadState* thread = thread_of_event(&fresh);
  if (!thread) return nullptr;
  // A thread's first call comes here whatever its size, and some threads are known before it: then nothing was drawn yet.
  if (thread->random) return thread->until_sample = draw_gap(*thread), thread;
  thread->until_sample = draw_gap(*thread) - static_cast<int64_t>(size | !size);
  if (thread->until_sample >= 0) return nullptr;
  return thread->until_sample = draw_gap(*thread), thread;
}

bool keep(void* block) {
  if (sampled_set::add(reinterpret_cast<uintptr_t>(block))) return true;
  std::atomic_ref<uint64_t>(recorder->file.header().sampling_lost).fetch_add(1, std::memory_order_relaxed);
  return false;
}

}  // namespace

void* sample_allocation(Operation operation, Origin origin, unsigned log2_alignment, void* block, uint64_t size,
                        const unwind::Registers* caller) {
  if (!sampling_thread(size) || !keep(block)) return block;
  if (caller && operation == Operation::escape)
    return StackedLog<false>::aligned_allocation_from(*caller, origin, log2_alignment, block, size);
  if (caller) return StackedLog<false>::allocation_from(*caller, operation, origin, block, size);
  if (operation == Operation::escape) return EventLog<false>::aligned_allocation(origin, log2_alignment, block, size);
  return EventLog<false>::allocation(operation, origin, block, size);
}

void release_sampled_and_free(Release release, void* block, void (*free)(void*)) {
  if (sampled_set::remove(reinterpret_cast<uintptr_t>(block))) return EventLog<false>::release_and_free(release, block, free);
  free(block);
}

bool begin_sampled_realloc(void* block) {
  return sampled_set::remove(reinterpret_cast<uintptr_t>(block)) && EventLog<false>::realloc_begin(block);
}

void* end_sampled_realloc(uintptr_t before, void* block, uint64_t size, const unwind::Registers* caller) {
  if (!block && size) sampled_set::add(before);  // it lives on
  if (block && !(SampleLog::due(size) && sampling_thread(size) && keep(block))) {
    write_realloc_without_block(0);
    return block;
  }
  if (caller) return StackedLog<false>::realloc_end_from(*caller, block, size);
  return EventLog<false>::realloc_end(true, before, block, size);
}

void* realloc_of_unsampled_failed(uint64_t size) { return size ? write_failed(Origin::realloc, size) : nullptr; }

}  // namespace heapspy
