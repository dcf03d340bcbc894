#include "count_log.h"

#include "recorder.h"
#include "thread_life.h"

namespace heapspy {

using namespace format;

namespace {

// How many events pass between two looks at RSS and the requests from outside.
constexpr int64_t kEventsPerUpkeep = 1024;

ThreadState* counting_thread(bool in_free = false) {
  ThreadState* thread = thread_of_event(nullptr, in_free);
  if (!thread) return nullptr;
  thread->until_upkeep = kEventsPerUpkeep;
  {
    Shut shut;
    upkeep_if_due(recorder->clock.now());
  }
  return thread;
}

void count_call(Call call) {
  ThreadState* thread = tls.state;
  if (--thread->until_upkeep < 0) thread = counting_thread();
  if (thread) count(*thread->counters, call);
}

}  // namespace

void* upkeep_then_count(Call call, void* block, uint64_t size) {
  if (ThreadState* thread = counting_thread()) count(*thread->counters, call, size);
  return block;
}

void upkeep_then_count_and_free(Call call, void* block, void (*free)(void*)) {
  if (ThreadState* thread = counting_thread(true)) count(*thread->counters, call);
  free(block);
}

void* count_realloc_without_block(uint64_t size) {
  if (size) return count_failed(Call::reallocation, Call::failed_reallocation);
  count_call(Call::realloc_freed);
  return nullptr;
}

void* count_failed(Call call, Call as) {
  count_call(call);
  count_call(as);
  return nullptr;
}

}  // namespace heapspy
