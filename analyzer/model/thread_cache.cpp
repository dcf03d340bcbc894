#include "analyzer/model/thread_cache.h"

namespace heapspy::model {

using trace::ThreadId;

ThreadCache::ThreadCache(const HeapFacts& facts, PageMap& pages) : facts_(facts), pages_(pages), table_(1024, kNone) {}

std::size_t ThreadCache::slot(std::uint64_t address) const {
  return static_cast<std::size_t>((address >> 4) * 0x9E3779B97F4A7C15ull >> 32) & (table_.size() - 1);
}

std::uint32_t ThreadCache::find(std::uint64_t address) const {
  for (std::size_t at = slot(address);; at = (at + 1) & (table_.size() - 1)) {
    const std::uint32_t node = table_[at];
    if (node == kNone || nodes_[node].address == address) return node;
  }
}

void ThreadCache::insert(std::uint32_t node) {
  std::size_t at = slot(nodes_[node].address);
  while (table_[at] != kNone) at = (at + 1) & (table_.size() - 1);
  table_[at] = node;
}

// Moves later entries of the run forward, so that no search ends early and none grows.
void ThreadCache::erase(std::uint64_t address) {
  const std::size_t mask = table_.size() - 1;
  std::size_t hole = slot(address);
  while (table_[hole] != kNone && nodes_[table_[hole]].address != address) hole = (hole + 1) & mask;
  if (table_[hole] == kNone) return;
  for (std::size_t next = (hole + 1) & mask; table_[next] != kNone; next = (next + 1) & mask) {
    const std::size_t home = slot(nodes_[table_[next]].address);
    if (((next - home) & mask) < ((next - hole) & mask)) continue;
    table_[hole] = table_[next];
    hole = next;
  }
  table_[hole] = kNone;
}

void ThreadCache::grow() {
  table_.assign(table_.size() * 2, kNone);
  for (std::uint32_t node = 0; node < nodes_.size(); node++)
    if (nodes_[node].address) insert(node);
}

void ThreadCache::unlink(std::uint32_t at) {
  Node& node = nodes_[at];
  Bins& bins = *threads_[ThreadId(node.thread)];
  if (node.previous != kNone)
    nodes_[node.previous].next = node.next;
  else
    bins.newest[node.bin] = node.next;
  if (node.next != kNone) nodes_[node.next].previous = node.previous;
  bins.count[node.bin]--;
  erase(node.address);
  blocks_--;
  bytes_ -= chunk_bytes(node.bin);
  pages_.uncache(node.address, chunk_bytes(node.bin));
  node.address = 0;
  unused_.push_back(at);
}

bool ThreadCache::put(ThreadId by, std::uint64_t address, std::uint64_t size) {
  if (facts_.cache_depth == 0 || size > facts_.cache_limit || size >= kLargeBlockBytes) return false;
  const std::uint64_t chunk = glibc_chunk_bytes(size);
  const auto bin = static_cast<std::uint32_t>((chunk - 32) / 16);
  if (bin >= kBinCount || address == 0 || ended_[by]) return false;
  std::unique_ptr<Bins>& bins = threads_[by];
  if (!bins) bins = std::make_unique<Bins>();
  if (bins->count[bin] >= facts_.cache_depth || find(address) != kNone) return false;

  std::uint32_t at;
  if (unused_.empty()) {
    at = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    at = unused_.back();
    unused_.pop_back();
  }
  Node& node = nodes_[at];
  node = {address, bins->newest[bin], kNone, index(by), bin};
  if (node.next != kNone) nodes_[node.next].previous = at;
  bins->newest[bin] = at;
  bins->count[bin]++;
  if (++blocks_ * 2 > table_.size())
    grow();
  else
    insert(at);
  bytes_ += chunk;
  pages_.cache(address, size);
  return true;
}

bool ThreadCache::take(std::uint64_t address) {
  if (blocks_ == 0) return false;
  const std::uint32_t node = find(address);
  if (node == kNone) return false;
  unlink(node);
  return true;
}

void ThreadCache::end_thread(ThreadId id) {
  ended_[id] = 1;
  std::unique_ptr<Bins>& bins = threads_[id];
  if (!bins) return;
  for (const std::uint32_t& newest : bins->newest)
    while (newest != kNone) unlink(newest);
  bins.reset();
}

void ThreadCache::restore_pages() {
  for (const Node& node : nodes_) {
    if (!node.address) continue;
    const std::uint64_t size = chunk_bytes(node.bin) - 8;
    pages_.add(node.address, size);
    pages_.cache(node.address, size);
  }
}

}  // namespace heapspy::model
