// Live bytes and residency over time, in at most 256 points however long the trace is. Peaks are kept.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/trace/event.h"

namespace heapspy::model {

struct CurvePoint {
  trace::Tick tick = 0;
  std::uint64_t live_bytes = 0;  // asked for and not freed at that moment
  // Only where a snapshot was taken:
  std::optional<std::uint64_t> system_bytes, rss_bytes, pinned_bytes;
};

// Time is cut into bins of equal width; the width doubles when they run out. A bin keeps the moment of its highest live
// bytes and its snapshot of highest RSS.
class TimelineCurve final : public trace::Observer {
 public:
  static constexpr std::size_t kBins = 126;
  // `stands_for`: how many bytes a block of a size is taken for; empty: its own.
  explicit TimelineCurve(std::function<std::uint64_t(std::uint64_t)> stands_for = {}) : stands_for_(std::move(stands_for)) {}
  std::vector<CurvePoint> points() const;  // by time; the last one is the last event or snapshot

  // What a snapshot says beyond RSS; called by the heap state, for the snapshot that is being taken.
  void note(trace::Tick, std::optional<std::uint64_t> system_bytes, std::optional<std::uint64_t> pinned_bytes);

  void allocated(const trace::Block&, trace::Tick) override;
  void released(const trace::Block&, trace::ThreadId by, trace::Release, trace::Tick) override;
  void resized(const trace::Block& before, const trace::Block& after, trace::ThreadId by, trace::Tick) override;
  void vanished(const trace::Block&, trace::Tick) override;
  void snapshot_taken(const trace::Snapshot&) override;

 private:
  struct Bin {
    bool used = false, snapshot = false;
    CurvePoint top;   // highest live bytes
    CurvePoint seen;  // snapshot of highest RSS
  };
  std::uint64_t bytes(std::uint64_t size) const { return stands_for_ ? stands_for_(size) : size; }
  Bin& bin(trace::Tick);
  void moved(trace::Tick);

  std::function<std::uint64_t(std::uint64_t)> stands_for_;
  std::vector<Bin> bins_ = std::vector<Bin>(kBins);
  unsigned width_log2_ = 14;  // of a bin, in ticks
  CurvePoint newest_;         // the last snapshot
  std::uint64_t live_ = 0;
  trace::Tick last_ = 0;
};

}  // namespace heapspy::model
