#include "analyzer/model/totals.h"

namespace heapspy::model {

using trace::Block;
using trace::Origin;
using trace::Release;
using trace::ThreadId;
using trace::Tick;

namespace {

std::uint64_t& calls_of(Calls& calls, Origin origin) {
  switch (origin) {
    case Origin::calloc: return calls.calloc;
    case Origin::realloc: return calls.realloc;
    case Origin::aligned: return calls.aligned;
    case Origin::operator_new: return calls.operator_new;
    case Origin::operator_new_aligned: return calls.operator_new_aligned;
    default: return calls.malloc;
  }
}

std::uint64_t& calls_of(Calls& calls, Release release) {
  return release == Release::operator_delete ? calls.operator_delete : calls.free;
}

}  // namespace

void TotalsCounter::grown(Tick tick) {
  if (totals_.live_bytes <= totals_.peak_live_bytes) return;
  totals_.peak_live_bytes = totals_.live_bytes;
  totals_.peak_tick = tick;
}

void TotalsCounter::allocated(const Block& block, Tick tick) {
  totals_.allocations++;
  totals_.bytes_allocated += block.size;
  totals_.live_bytes += block.size;
  totals_.live_blocks++;
  grown(tick);
  calls_of(totals_.calls, block.origin)++;
  newest_[block.thread] = block.address;
}

void TotalsCounter::end_block(const Block& block, ThreadId by) {
  totals_.frees++;
  totals_.live_bytes -= block.size;
  totals_.live_blocks--;
  std::uint64_t& newest = newest_[by];
  // Its thread's last event allocated this address, so no other block of that thread can be meant.
  if (newest == block.address && block.thread == by) totals_.temporary++;
  newest = 0;
}

void TotalsCounter::released(const Block& block, ThreadId by, Release release, Tick) {
  end_block(block, by);
  calls_of(totals_.calls, release)++;
}

void TotalsCounter::released_by_realloc(const Block& block, ThreadId by, Tick) {
  end_block(block, by);
  totals_.calls.realloc++;
}

void TotalsCounter::release_unseen(const Block&, ThreadId) {
  totals_.frees--;
  totals_.calls.free--;  // a loan is told as free()
}

void TotalsCounter::resized(const Block& before, const Block& after, ThreadId by, Tick tick) {
  totals_.reallocations += after.size != 0;  // only to more than 0 bytes count; mimalloc's realloc(p, 0) gives a block
  totals_.bytes_allocated += after.size;
  if (before.known)
    totals_.live_bytes -= before.size;
  else
    totals_.live_blocks++;
  totals_.live_bytes += after.size;
  grown(tick);
  totals_.calls.realloc++;
  newest_[by] = 0;
}

void TotalsCounter::vanished(const Block& block, Tick) {
  totals_.live_bytes -= block.size;
  totals_.live_blocks--;
}

void TotalsCounter::failed(ThreadId thread, Origin origin, std::uint64_t, Tick) {
  totals_.failed++;
  calls_of(totals_.calls, origin)++;
  newest_[thread] = 0;
}

void TotalsCounter::unknown_release(ThreadId thread, std::uint64_t, Release release, bool inherited, Tick) {
  (inherited ? totals_.inherited_frees : totals_.unknown_frees)++;
  unknown_block(thread, release);
}

void TotalsCounter::unrecorded_release(ThreadId thread, std::uint64_t, Release release, Tick) {
  totals_.unrecorded_frees++;
  unknown_block(thread, release);
}

void TotalsCounter::unknown_block(ThreadId thread, Release release) {
  totals_.frees++;
  calls_of(totals_.calls, release)++;
  newest_[thread] = 0;
}

}  // namespace heapspy::model
