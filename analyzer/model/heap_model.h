// Runs a trace through all observers, once, and keeps what a report needs. Memory grows with live blocks, pages and
// threads, never with events.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "analyzer/model/concurrency.h"
#include "analyzer/model/inherited.h"
#include "analyzer/model/lifetimes.h"
#include "analyzer/model/moment.h"
#include "analyzer/model/sampled.h"
#include "analyzer/model/site_stats.h"
#include "analyzer/model/size_histogram.h"
#include "analyzer/model/thread_stats.h"
#include "analyzer/model/timeline_curve.h"
#include "analyzer/model/totals.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/timeline.h"

namespace heapspy::model {

struct Figures {
  HeapFacts facts;
  trace::TimelineCounts events;
  Totals totals;
  std::vector<ThreadFigures> threads;  // by id
  std::vector<SizeRow> sizes;          // by size
  std::vector<LifetimeRow> lifetimes;  // shortest first
  std::vector<SiteFigures> sites;      // by site; empty where the trace has no call stacks
  std::vector<CurvePoint> curve;       // by time
  std::vector<trace::Mark> marks;      // of the program's own threads, by time
  std::uint64_t marks_left_out = 0;    // beyond kMarksKept
  // Mode sample: `totals`, `threads`, `sizes`, `lifetimes` and `curve` are estimates, with these errors.
  std::optional<StandardErrors> errors;
  std::vector<StandardErrors> thread_errors;  // as threads
  // Mode count: no block is known, and live bytes, lives and peaks are not; `totals.live_blocks` is where this is false.
  bool counted = false, counted_negative = false;
  bool calls_missing =
      false;  // so many events are lost, or answered by others, that blocks may only seem to live, or to be gone
  ConcurrencyFigures concurrency;              // glibc only
  std::optional<InheritedFigures> inherited;   // only with ModelOptions::parent
  std::vector<Moment> moments;                 // peak (if any snapshot was taken), end, requested (if asked for)
  std::optional<std::uint64_t> live_at_asked;  // bytes at ModelOptions::at_seconds itself: `requested` is at a snapshot

  const Moment* at(Why) const;  // nullptr: no such moment
};

struct ModelOptions {
  std::optional<double> at_seconds;  // asks for a moment of kind `requested`
  std::size_t top_blocks = 20;       // of ArenaState::pinning
  SiteFilter sites;                  // which blocks count for sites
  std::function<void(double)> progress;
  // Called for each snapshot. Of a Moment that is not among Figures::moments only what the ledger needs is filled: live bytes
  // and blocks, ArenaState::shares, and what the snapshot itself says. time_s is not.
  std::function<void(const Moment&)> at_snapshot;

  // Of a forked process whose parent's trace is at hand: its heap when it forked. Must outlive the call.
  const HeapAtFork* parent = nullptr;
  // Children whose traces are at hand, by Fork::at. `at_fork` is called for each, in this order, while this trace's timeline
  // stands there. `family` and `process` (a number for this one) name the threads of inherited blocks.
  std::vector<Fork> forks;
  std::function<void(std::size_t, const HeapAtFork&)> at_fork;
  FamilyThreads* family = nullptr;
  std::uint32_t process = 0;
};

// The reader must outlive the call. May be called by any thread; uses one.
Figures build_figures(const trace::Reader&, const ModelOptions& = {});

}  // namespace heapspy::model
