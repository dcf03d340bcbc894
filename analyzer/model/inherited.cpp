#include "analyzer/model/inherited.h"

#include <algorithm>

namespace heapspy::model {

using trace::Block;
using trace::ThreadId;
using trace::Tick;

// ---- names -------------------------------------------------------------------------------------------------------
ThreadId FamilyThreads::of(std::uint32_t process, ThreadId thread, const ThreadStats& threads) {
  const auto [at, added] = ids_.emplace(std::pair(process, thread), static_cast<std::uint32_t>(threads_.size()));
  if (added) threads_.push_back({process, thread, threads.name(thread)});
  return ThreadId{at->second};
}

// ---- blocks that ended about the time of a fork ------------------------------------------------------------------
EndedLately::EndedLately(const std::vector<Fork>& forks) {
  for (const Fork& fork : forks) earliest_.push_back(fork.earliest);
  for (std::size_t i = earliest_.size(); i-- > 1;) earliest_[i - 1] = std::min(earliest_[i - 1], earliest_[i]);
  if (!earliest_.empty()) since_ = earliest_[0];
}

void EndedLately::passed_fork() {
  next_++;
  const Tick before = since_;
  since_ = next_ < earliest_.size() ? earliest_[next_] : std::numeric_limits<Tick>::max();
  if (since_ != before) std::erase_if(ends_, [&](const auto& entry) { return entry.second.tick < since_; });
}

const Block* EndedLately::find(std::uint64_t address, Tick since) const {
  const auto found = ends_.find(address);
  return found != ends_.end() && found->second.tick >= since ? &found->second.block : nullptr;
}

void EndedLately::add(const Block& block, Tick tick) {
  if (ends_.size() < kMost || ends_.contains(block.address)) ends_[block.address] = {block, tick};
}

void EndedLately::resized(const Block& before, const Block& after, ThreadId, Tick tick) {
  if ((before.known || before.inherited) && before.address != after.address) note(before, tick);
}

std::optional<Block> HeapAtFork::at_fork(std::uint64_t address) const {
  std::optional<Block> block = timeline_.live_at(address);
  if (!block) {
    if (const Block* ended = ended_.find(address, fork_.earliest)) block = *ended;
    if (!block) block = timeline_.about_to_live_at(address, fork_.at);
    if (!block) return std::nullopt;
    if (missed_.insert(address).second) missed_bytes_ += block->size;
  }
  if (block->inherited) {
    block->lived_before += fork_.at;
  } else {
    block->lived_before = fork_.at > block->born ? fork_.at - block->born : 0;
    block->thread = family_.of(process_, block->thread, threads_);
  }
  block->inherited = true;
  block->site = trace::SiteId::none;  // one of the parent's table
  block->known = true;
  block->born = 0;
  return block;
}

// ---- what became of them -----------------------------------------------------------------------------------------
void InheritedStats::leave(const Block& block) {
  ended_blocks_++;
  ended_bytes_ += block.size;
}

void InheritedStats::resized(const Block& before, const Block&, ThreadId, Tick) {
  if (!before.inherited) return;
  figures_.reallocations++;
  leave(before);
}

void InheritedStats::unknown_release(ThreadId, std::uint64_t, trace::Release, bool inherited, Tick) {
  figures_.unmatched_frees += inherited;
}

void InheritedStats::inherited_release(const Block& block, ThreadId, trace::Release, Tick) {
  figures_.frees++;
  figures_.bytes_freed += block.size;
  InheritedFigures::Thread& thread = threads_[index(block.thread)];
  thread.id = block.thread;
  thread.frees++;
  thread.bytes += block.size;
  leave(block);
}

void InheritedStats::inherited_gone(const Block& block, Tick) { leave(block); }

InheritedFigures InheritedStats::figures() const {
  InheritedFigures figures = figures_;
  figures.blocks_at_fork = blocks_at_fork();
  figures.bytes_at_fork = bytes_at_fork();
  figures.live_blocks = live_blocks();
  figures.live_bytes = live_bytes();
  for (const auto& [id, thread] : threads_) figures.threads.push_back(thread);
  std::sort(figures.threads.begin(), figures.threads.end(),
            [](const auto& a, const auto& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : index(a.id) < index(b.id); });
  return figures;
}

}  // namespace heapspy::model
