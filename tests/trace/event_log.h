// An observer that writes everything down and checks what every timeline promises.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "analyzer/trace/event.h"
#include "analyzer/trace/snapshot.h"
#include "analyzer/trace/timeline.h"

namespace heapspy::test {

// One line per call, such as "T1 alloc 1000+24" or "T2 free 1000 of T1"; times are left out unless `with_times`.
class EventLog : public trace::Observer {
 public:
  explicit EventLog(bool with_times = false) : with_times_(with_times) {}

  bool reallocs_overlap = false;
  std::vector<std::string> lines;
  std::map<std::uint64_t, trace::Block> live;
  std::uint64_t allocations = 0, releases = 0, unknown = 0, reattributions = 0, vanishings = 0, resizes = 0, snapshots = 0,
                unseen = 0;

  void allocated(const trace::Block& block, trace::Tick tick) override {
    allocations++;
    // A realloc is told when it has ended; another thread may have got its old address a moment before.
    const bool first = live.emplace(block.address, block).second;
    EXPECT_TRUE(first || reallocs_overlap) << "address live twice: " << std::hex << block.address;
    if (!first) live[block.address] = block;
    EXPECT_TRUE(block.known);
    note(tick, fmt::format("T{} alloc {:x}+{}", id(block.thread), block.address, block.size));
  }
  void released(const trace::Block& block, trace::ThreadId by, trace::Release, trace::Tick tick) override {
    releases++;
    end(block);
    note(tick, fmt::format("T{} free {:x} of T{}", id(by), block.address, id(block.thread)));
  }
  void released_by_realloc(const trace::Block& block, trace::ThreadId by, trace::Tick tick) override {
    releases++;
    end(block);
    note(tick, fmt::format("T{} realloc-free {:x} of T{}", id(by), block.address, id(block.thread)));
  }
  void vanished(const trace::Block& block, trace::Tick tick) override {
    vanishings++;
    end(block);
    note(tick, fmt::format("vanished {:x} of T{}", block.address, id(block.thread)));
  }
  void lived_before(const trace::Block& block, trace::ThreadId by, trace::Release, trace::Tick tick) override {
    allocations++;
    releases++;
    EXPECT_TRUE(live.contains(block.address));
    note(tick, fmt::format("T{} alloc {:x}+{}, T{} free, before", id(block.thread), block.address, block.size, id(by)));
  }
  void release_unseen(const trace::Block&, trace::ThreadId) override {
    releases--;
    unseen++;
  }
  void resized(const trace::Block& before, const trace::Block& after, trace::ThreadId by, trace::Tick tick) override {
    resizes++;
    if (before.known) end(before);
    EXPECT_EQ(after.born, before.born);
    live[after.address] = after;
    note(tick,
         fmt::format("T{} resize {} {:x}+{}", id(by), before.known ? fmt::format("{:x}+{}", before.address, before.size) : "?",
                     after.address, after.size));
  }
  void failed(trace::ThreadId by, trace::Origin origin, std::uint64_t size, trace::Tick tick) override {
    note(tick, fmt::format("T{} failed {} {}", id(by), static_cast<int>(origin), size));
  }
  void unknown_release(trace::ThreadId by, std::uint64_t address, trace::Release, bool inherited, trace::Tick tick) override {
    unknown++;
    note(tick, fmt::format("T{} {} free {:x}", id(by), inherited ? "inherited" : "unknown", address));
  }
  void reattributed(const trace::Block& block, trace::ThreadId said, trace::ThreadId is) override {
    reattributions++;
    lines.push_back(fmt::format("reattributed {:x} T{} to T{}", block.address, id(said), id(is)));
  }
  void thread_started(trace::ThreadId thread, std::uint32_t tid, std::string_view name, std::uint64_t stack,
                      trace::Tick tick) override {
    note(tick, fmt::format("T{} start {} '{}' {:x}", id(thread), tid, name, stack));
  }
  void thread_named(trace::ThreadId thread, std::string_view name, trace::Tick tick) override {
    note(tick, fmt::format("T{} name '{}'", id(thread), name));
  }
  void thread_is_java(trace::ThreadId thread, std::string_view group, bool daemon) override {
    lines.push_back(fmt::format("T{} of Java's, in '{}'{}", id(thread), group, daemon ? ", daemon" : ""));
  }
  void thread_ended(trace::ThreadId thread, trace::Tick tick) override { note(tick, fmt::format("T{} end", id(thread))); }
  void marked(trace::ThreadId thread, std::string_view text, trace::Tick tick) override {
    note(tick, fmt::format("T{} mark '{}'", id(thread), text));
  }
  void snapshot_taken(const trace::Snapshot& snapshot) override {
    snapshots++;
    lines.push_back(fmt::format("snapshot {}", snapshot.begin));
  }

 private:
  static std::uint32_t id(trace::ThreadId thread) { return trace::index(thread); }
  void end(const trace::Block& block) {
    const auto found = live.find(block.address);
    // A block that moved while its old address was given out again is told when it has moved.
    if (found != live.end() && found->second.size == block.size && found->second.thread == block.thread) live.erase(found);
  }
  void note(trace::Tick tick, std::string line) {
    EXPECT_GE(tick, last_) << "time goes back";
    last_ = tick;
    lines.push_back(with_times_ ? fmt::format("{} {}", tick, line) : std::move(line));
  }

  bool with_times_;
  trace::Tick last_ = 0;
};

}  // namespace heapspy::test
