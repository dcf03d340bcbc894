#include "analyzer/model/heap_state.h"

#include <utility>

#include "analyzer/model/site_removal.h"
#include "analyzer/trace/snapshot.h"

namespace heapspy::model {

using trace::Block;
using trace::ThreadId;
using trace::Tick;

HeapState::HeapState(const HeapFacts& facts, std::vector<WantedMoment> wanted, ForEachLive for_each_live, TimelineCurve* curve,
                     std::size_t top_blocks, Tick millisecond)
    : facts_(facts),
      pages_(facts),
      caches_(facts, pages_),
      threshold_(facts),
      concurrency_(millisecond),
      wanted_(std::move(wanted)),
      for_each_live_(std::move(for_each_live)),
      curve_(curve),
      top_blocks_(top_blocks) {}

void HeapState::begin(const Block& block, ThreadId by, Tick tick) {
  const bool from_cache = caches_.take(block.address);
  pages_.add(block.address, block.size);
  if (block.size < kLargeBlockBytes) newest_address_[by] = block.address;
  if (!facts_.glibc) return;
  if (!from_cache) concurrency_.call(by, tick);
  if (DynamicThreshold::own_mapping(block.address, block.size)) return;
  threshold_.allocated(block);
  folds_.add(block.address, block.size);
}

void HeapState::allocated(const Block& block, Tick tick) { begin(block, block.thread, tick); }

void HeapState::give_back(const Block& block, ThreadId by, Tick tick) {
  const bool to_cache = caches_.put(by, block.address, block.size);
  if (!to_cache) pages_.remove(block.address, block.size);
  if (!facts_.glibc) return;
  if (!to_cache) concurrency_.call(by, tick);
  if (DynamicThreshold::own_mapping(block.address, block.size)) return;
  folds_.remove(block.address, block.size);
  if (block.size >= kLargeBlockBytes) pages_.ended_in_heap(block.address, block.size);
}

void HeapState::released(const Block& block, ThreadId by, trace::Release, Tick tick) {
  if (!block.known) return;
  give_back(block, by, tick);
  threshold_.released(block, tick);
}

void HeapState::resized(const Block& before, const Block& after, ThreadId by, Tick tick) {
  if (before.known) {
    if (before.address == after.address) {
      pages_.remove(before.address, before.size);
      if (facts_.glibc && !DynamicThreshold::own_mapping(before.address, before.size))
        folds_.remove(before.address, before.size);
    } else {
      give_back(before, by, tick);
    }
  }
  begin(after, by, tick);
}

void HeapState::vanished(const Block& block, Tick) { pages_.remove(block.address, block.size); }

void HeapState::thread_started(ThreadId id, std::uint32_t, std::string_view, std::uint64_t stack_address, Tick) {
  stacks_[id] = stack_address;
}

void HeapState::thread_ended(ThreadId id, Tick) {
  caches_.end_thread(id);
  newest_address_[id] = 0;
  stacks_[id] = 0;
}

void HeapState::recording_switched(ThreadId, bool on, Tick) { facts_.unrecorded |= !on; }

void HeapState::snapshot_taken(const trace::Snapshot& snapshot) {
  if (doubt_) facts_.unrecorded |= doubt_();
  const std::size_t number = snapshots_++;
  bool computed = false;
  for (const WantedMoment& wanted : wanted_) {
    if (wanted.snapshot != number) continue;
    if (computed) {  // the same snapshot for another reason
      Moment copy = moments_.back();
      copy.why = wanted.why;
      moments_.push_back(std::move(copy));
      continue;
    }
    computed = true;
    moments_.push_back(compute(wanted.why, snapshot.begin, &snapshot));
  }
  if (!curve_ && !told_) return;
  if (computed) {
    const ArenaFigures& all = moments_.back().heap.process;
    if (curve_) curve_->note(snapshot.begin, all.system_bytes, all.pinned_bytes);
    if (told_) (*told_)(moments_.back());
    return;
  }
  const ArenaInputs inputs{facts_, pages_, &snapshot, for_each_live_};
  BriefState brief = brief_state(inputs, told_ != nullptr);
  if (curve_) curve_->note(snapshot.begin, brief.system_bytes, brief.pinned_bytes);
  if (!told_) return;
  Moment moment;
  moment.tick = snapshot.begin;
  moment.live_bytes = pages_.live_bytes();
  moment.live_blocks = pages_.live_blocks();
  moment.heap.unrecorded = facts_.unrecorded;
  moment.heap.shares = std::move(brief.shares);
  describe(moment, snapshot);
  (*told_)(moment);
}

Moment HeapState::moment(Why why, Tick tick) { return compute(why, tick, nullptr); }

// The page map is right as long as every block's end was seen. Where events are lost it may not be; the timeline's own
// table of blocks then decides.
void HeapState::agree_with_live_blocks() {
  std::uint64_t blocks = 0, bytes = 0;
  for_each_live_([&](const Block& block) {
    blocks++;
    bytes += block.size;
  });
  if (blocks == pages_.live_blocks() && bytes == pages_.live_bytes()) return;
  for_each_live_([&](const Block& block) { caches_.take(block.address); });
  pages_.clear();
  for_each_live_([&](const Block& block) { pages_.add(block.address, block.size); });
  caches_.restore_pages();
}

Moment HeapState::compute(Why why, Tick tick, const trace::Snapshot* snapshot) {
  agree_with_live_blocks();
  Moment moment;
  moment.why = why;
  moment.tick = tick;
  moment.live_bytes = pages_.live_bytes();
  moment.live_blocks = pages_.live_blocks();
  const ArenaInputs inputs{facts_, pages_, snapshot, for_each_live_, &newest_address_, sites_, tick};
  moment.heap = arena_state(inputs, top_blocks_);
  moment.threshold = threshold_.figures();
  moment.needs = folds_.needs();
  if (snapshot) {
    moment.freed_sites = if_sites_let_go(inputs, moment.heap);
    describe(moment, *snapshot);
  }
  return moment;
}

void HeapState::describe(Moment& moment, const trace::Snapshot& taken) const {
  const trace::Snapshot* snapshot = &taken;
  moment.reason = snapshot->reason;
  moment.rss_bytes = snapshot->rss_bytes;
  moment.recorder_bytes = snapshot->recorder_bytes;
  moment.mappings = snapshot->mappings;
  moment.heaps = snapshot->heaps;
  stacks_.for_each([&](ThreadId, std::uint64_t address) {
    if (address) moment.stack_addresses.push_back(address);
  });
  moment.cgroup = snapshot->cgroup;
  moment.status_text = snapshot->status_text;
}

}  // namespace heapspy::model
