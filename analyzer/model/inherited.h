// What a forked process did with the blocks that it had from its parent, where the parent's trace says what they were.
//
// The parent's timeline stands still at the fork while the child's runs to its end (and, within it, those of its own
// children): the child asks the parent's table of live blocks, and nothing is copied for it.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyzer/model/thread_stats.h"
#include "analyzer/trace/event.h"
#include "analyzer/trace/inherited.h"
#include "analyzer/trace/timeline.h"

namespace heapspy::model {

// When a child was forked, in ticks of its parent. The kernel notes the start of a process to 10 ms; the child's trace begins
// at its first event.
struct Fork {
  trace::Tick earliest = 0;
  trace::Tick at = 0;  // not later
};

// The threads, over all processes of a family, that allocated blocks which children then ended.
class FamilyThreads {
 public:
  struct Thread {
    std::uint32_t process = 0;  // number, as the caller counts them
    trace::ThreadId id = trace::ThreadId::none;
    std::string name;
  };
  // One id for each (process, thread); `name` is taken the first time.
  trace::ThreadId of(std::uint32_t process, trace::ThreadId, const ThreadStats&);
  const Thread& operator[](trace::ThreadId id) const { return threads_[index(id)]; }

 private:
  std::vector<Thread> threads_ = std::vector<Thread>(1);  // id 0 is none
  std::map<std::pair<std::uint32_t, trace::ThreadId>, std::uint32_t> ids_;
};

// Blocks that ended lately, while a child may have been forked already that was not heard of yet: for the child they live.
// Memory: nothing but within such windows, and then an entry for each address, at most kMost.
class EndedLately final : public trace::Observer {
 public:
  static constexpr std::size_t kMost = 1 << 20;

  explicit EndedLately(const std::vector<Fork>& forks);  // by `at`
  void passed_fork();                                    // the next one of them
  // The block that ended last at `address`, if that was at or after `since`.
  const trace::Block* find(std::uint64_t address, trace::Tick since) const;

  void released(const trace::Block& block, trace::ThreadId, trace::Release, trace::Tick tick) override { note(block, tick); }
  void resized(const trace::Block& before, const trace::Block& after, trace::ThreadId, trace::Tick) override;
  void vanished(const trace::Block& block, trace::Tick tick) override { note(block, tick); }
  void lived_before(const trace::Block&, trace::ThreadId, trace::Release, trace::Tick) override {}
  void inherited_release(const trace::Block& block, trace::ThreadId, trace::Release, trace::Tick tick) override {
    note(block, tick);
  }

 private:
  struct End {
    trace::Block block;
    trace::Tick tick = 0;
  };
  void note(const trace::Block& block, trace::Tick tick) {
    if (tick >= since_) [[unlikely]]
      add(block, tick);
  }
  void add(const trace::Block&, trace::Tick);

  std::vector<trace::Tick> earliest_;  // of this fork and all later ones
  std::size_t next_ = 0;
  trace::Tick since_ = std::numeric_limits<trace::Tick>::max();
  std::unordered_map<std::uint64_t, End> ends_;
};

// A process's heap at the moment when it forked; what the child asks. Lives as long as the parent's timeline stands there.
class HeapAtFork final : public trace::InheritedBlocks {
 public:
  HeapAtFork(const Fork& fork, const trace::Timeline& timeline, const EndedLately& ended, const ThreadStats& threads,
             FamilyThreads& family, std::uint32_t process)
      : fork_(fork), timeline_(timeline), ended_(ended), threads_(threads), family_(family), process_(process) {}

  // What lives at Fork::at, blocks of the parent's own parent included.
  std::uint64_t live_bytes = 0, live_blocks = 0;
  // Further blocks that were asked for: they had ended by then, or were about to begin.
  std::uint64_t missed_bytes() const { return missed_bytes_; }
  std::uint64_t missed_blocks() const { return missed_.size(); }

  std::optional<trace::Block> at_fork(std::uint64_t address) const override;

 private:
  const Fork& fork_;
  const trace::Timeline& timeline_;
  const EndedLately& ended_;
  const ThreadStats& threads_;
  FamilyThreads& family_;
  std::uint32_t process_;
  mutable std::unordered_set<std::uint64_t> missed_;  // addresses
  mutable std::uint64_t missed_bytes_ = 0;
};

// `report --json`: processes[].inherited.
struct InheritedFigures {
  // As of the process's first event; and what it ended although the parent had by then, for it forked before that.
  std::uint64_t blocks_at_fork = 0, bytes_at_fork = 0;
  std::uint64_t frees = 0, bytes_freed = 0;  // of blocks that the parent's trace knows
  std::uint64_t reallocations = 0;           // which made them blocks of this process
  std::uint64_t unmatched_frees = 0;         // of addresses where the parent's trace knows no block and the process made none
  std::uint64_t live_blocks = 0, live_bytes = 0;
  struct Thread {
    trace::ThreadId id = trace::ThreadId::none;  // of FamilyThreads: that had allocated them
    std::uint64_t frees = 0, bytes = 0;
  };
  std::vector<Thread> threads;  // most bytes first
};

class InheritedStats final : public trace::Observer {
 public:
  explicit InheritedStats(const HeapAtFork& parent) : parent_(parent) {}
  InheritedFigures figures() const;
  std::uint64_t live_blocks() const { return left(blocks_at_fork(), ended_blocks_); }
  std::uint64_t live_bytes() const { return left(bytes_at_fork(), ended_bytes_); }

  void resized(const trace::Block& before, const trace::Block& after, trace::ThreadId by, trace::Tick) override;
  void unknown_release(trace::ThreadId, std::uint64_t address, trace::Release, bool inherited, trace::Tick) override;
  void inherited_release(const trace::Block&, trace::ThreadId by, trace::Release, trace::Tick) override;
  void inherited_gone(const trace::Block&, trace::Tick) override;

 private:
  void leave(const trace::Block&);
  // Where the parent's trace is damaged, more may have ended than was known to live.
  static std::uint64_t left(std::uint64_t had, std::uint64_t ended) { return had > ended ? had - ended : 0; }
  std::uint64_t blocks_at_fork() const { return parent_.live_blocks + parent_.missed_blocks(); }
  std::uint64_t bytes_at_fork() const { return parent_.live_bytes + parent_.missed_bytes(); }

  const HeapAtFork& parent_;
  InheritedFigures figures_;
  std::uint64_t ended_blocks_ = 0, ended_bytes_ = 0;
  std::unordered_map<std::uint32_t, InheritedFigures::Thread> threads_;
};

}  // namespace heapspy::model
