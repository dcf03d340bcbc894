// A program in a test: keeps the blocks that live, and tells observers what happens to them, as a timeline would.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/trace/event.h"
#include "analyzer/trace/snapshot.h"

namespace heapspy::test {

using trace::Block;
using trace::Origin;
using trace::Release;
using trace::ThreadId;
using trace::Tick;

class World {
 public:
  World() = default;
  explicit World(std::initializer_list<trace::Observer*> observers) : observers_(observers) {}
  void watch(trace::Observer* observer) { observers_.push_back(observer); }

  Tick now = 0;                              // of the next event; every event moves it on by 1
  trace::SiteId site = trace::SiteId::none;  // of the next allocations and reallocations

  Block& allocate(std::uint32_t thread, std::uint64_t address, std::uint64_t size, Origin origin = Origin::malloc) {
    Block block;
    block.address = address;
    block.size = size;
    block.born = now;
    block.thread = ThreadId(thread);
    block.origin = origin;
    block.site = site;
    Block& kept = live_[address] = block;
    for (trace::Observer* o : observers_) o->allocated(kept, now);
    now++;
    return kept;
  }
  void free(std::uint32_t thread, std::uint64_t address, Release release = Release::free) {
    const Block block = take(address);
    for (trace::Observer* o : observers_) o->released(block, ThreadId(thread), release, now);
    now++;
  }
  void realloc_to_nothing(std::uint32_t thread, std::uint64_t address) {
    const Block block = take(address);
    for (trace::Observer* o : observers_) o->released_by_realloc(block, ThreadId(thread), now);
    now++;
  }
  void reallocate(std::uint32_t thread, std::uint64_t before, std::uint64_t after, std::uint64_t size) {
    const Block old = take(before);
    Block block = old;
    block.address = after;
    block.size = size;
    block.thread = ThreadId(thread);
    block.site = site;
    live_[after] = block;
    for (trace::Observer* o : observers_) o->resized(old, block, ThreadId(thread), now);
    now++;
  }
  void fail(std::uint32_t thread, Origin origin, std::uint64_t size) {
    for (trace::Observer* o : observers_) o->failed(ThreadId(thread), origin, size, now);
    now++;
  }
  void start(std::uint32_t thread, std::uint32_t tid, std::string_view name, std::uint64_t stack = 0) {
    for (trace::Observer* o : observers_) o->thread_started(ThreadId(thread), tid, name, stack, now);
    now++;
  }
  void end(std::uint32_t thread) {
    for (trace::Observer* o : observers_) o->thread_ended(ThreadId(thread), now);
    now++;
  }
  void snapshot(trace::Snapshot& snapshot) {
    snapshot.begin = snapshot.end = now++;
    for (trace::Observer* o : observers_) o->snapshot_taken(snapshot);
  }

  const std::map<std::uint64_t, Block>& live() const { return live_; }
  std::function<void(const std::function<void(const Block&)>&)> for_each_live() {
    return [this](const std::function<void(const Block&)>& visit) {
      for (const auto& [address, block] : live_) visit(block);
    };
  }

 private:
  Block take(std::uint64_t address) {
    const auto found = live_.find(address);
    Block block;
    if (found == live_.end()) {
      block.address = address;
      block.known = false;
      return block;
    }
    block = found->second;
    live_.erase(found);
    return block;
  }

  std::vector<trace::Observer*> observers_;
  std::map<std::uint64_t, Block> live_;
};

inline trace::Mapping mapping(std::uint64_t start, std::uint64_t end, std::uint64_t rss_bytes, std::string name = "") {
  trace::Mapping m;
  m.start = start;
  m.end = end;
  m.rss_bytes = rss_bytes;
  m.anonymous_bytes = rss_bytes;
  m.read = m.write = true;
  m.name = std::move(name);
  return m;
}

// Adds a writable anonymous mapping of which the pages with these indices are resident; {}: all.
inline void add_memory(trace::Snapshot& snapshot, std::uint64_t start, std::uint64_t pages, std::string name = "",
                       std::vector<std::uint64_t> resident = {}) {
  trace::ResidentPages record;
  record.start = start;
  record.pages = pages;
  record.kind = format::Residency::all;
  std::uint64_t count = pages;
  if (!resident.empty()) {
    record.kind = format::Residency::bitmap;
    record.bitmap.resize((pages + 63) / 64);
    for (const std::uint64_t page : resident) record.bitmap[page / 64] |= 1ull << (page % 64);
    count = resident.size();
  }
  snapshot.mappings.push_back(mapping(start, start + pages * 4096, count * 4096, std::move(name)));
  snapshot.resident.push_back(std::move(record));
  snapshot.rss_bytes += count * 4096;
}

}  // namespace heapspy::test
