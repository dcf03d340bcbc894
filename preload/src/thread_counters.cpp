#include "thread_counters.h"

namespace heapspy {

using namespace format;

namespace {

void count_long(ThreadCounters& counters, const uint64_t* words) {
  const uint64_t payload = words[0] >> kPayloadShift;
  switch (static_cast<Kind>(words[0] >> kKindShift & 31)) {
    case Kind::allocation: return count(counters, call_of(static_cast<Origin>(payload & 255)), words[2]);
    case Kind::release: return count(counters, call_of(static_cast<Release>(payload)));
    case Kind::realloc_end: return count(counters, Call::reallocation, words[2]);
    case Kind::realloc_freed: return count(counters, Call::realloc_freed);
    case Kind::failed: count(counters, call_of(static_cast<Origin>(payload))); return count(counters, Call::failed);
    case Kind::realloc_failed: count(counters, Call::reallocation); return count(counters, Call::failed_reallocation);
    default: return;
  }
}

}  // namespace

void count_record(const ThreadState& thread, const uint64_t* words) {
  if (!thread.counters) return;
  ThreadCounters& counters = *thread.counters;
  switch (static_cast<Operation>(words[0] & 7)) {
    case Operation::escape: return count_long(counters, words);
    case Operation::realloc_begin: return;
    case Operation::free: return count(counters, call_of(static_cast<Release>(words[0] >> kSizeShift & (kShortSizeLimit - 1))));
    default: return count_short(counters, words[0]);
  }
}

}  // namespace heapspy
