// Merges the threads' streams into one order and joins every free to its block.
//
// A thread's own order is exact. Between threads the order follows from causality (an address must be freed before it
// can be allocated again, by whatever thread) within the windows that stamps give; see the .cpp for the rules.
// Owns the table of live blocks: 32 bytes a slot, about 50 to 60 bytes per live block; streaming otherwise.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "analyzer/trace/event.h"
#include "analyzer/trace/inherited.h"
#include "analyzer/trace/reader.h"

namespace heapspy::trace {

struct TimelineCounts {
  std::uint64_t events = 0;            // calls: allocation, release, realloc (one each), failed
  std::uint64_t reordered_events = 0;  // had to wait for another thread's event, or were repaired
  std::uint64_t repaired_events = 0;   // of these: no order within the windows explained them
  Tick last_tick = 0;
};

class Timeline {
 public:
  // `inherited` (may be null): of a forked process, what its parent's trace knows. Must outlive this.
  Timeline(const Reader&, std::vector<Observer*>, const InheritedBlocks* inherited = nullptr);
  ~Timeline();

  // Runs to the end, or to the first event after `until`. `progress` (may be empty) gets the share done, 0 to 1, now
  // and then.
  TimelineCounts run(std::optional<Tick> until = std::nullopt, const std::function<void(double)>& progress = {});

  // Which snapshots are decoded and passed on (by index, as in Reader); all, unless this was called before run().
  void choose_snapshots(std::function<bool(std::size_t)>);

  // Live blocks as of the last event passed on; valid inside Observer calls too (snapshot_taken above all).
  std::uint64_t live_blocks() const;
  void for_each_live(const std::function<void(const Block&)>&) const;
  // The block that lives at `address` as of the last event passed on, inherited ones included.
  std::optional<Block> live_at(std::uint64_t address) const;
  // The block that an event not passed on yet, whose window has begun by `tick`, is about to begin at `address`: it may
  // have been there at `tick`.
  std::optional<Block> about_to_live_at(std::uint64_t address, Tick tick) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heapspy::trace
