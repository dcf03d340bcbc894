#include "analyzer/model/timeline_curve.h"

#include <algorithm>

#include "analyzer/trace/snapshot.h"

namespace heapspy::model {

TimelineCurve::Bin& TimelineCurve::bin(trace::Tick tick) {
  while (tick >> width_log2_ >= kBins) {
    if (width_log2_ == 63) break;
    for (std::size_t i = 0; i < kBins / 2; i++) {
      Bin& to = bins_[i];
      const Bin first = bins_[2 * i], second = bins_[2 * i + 1];
      to.used = first.used || second.used;
      to.snapshot = first.snapshot || second.snapshot;
      const bool later = !first.used || (second.used && second.top.live_bytes > first.top.live_bytes);
      to.top = later ? second.top : first.top;
      // Of equal RSS the later one: the end of the program is worth more than its middle.
      const bool later_seen =
          !first.snapshot || (second.snapshot && second.seen.rss_bytes.value_or(0) >= first.seen.rss_bytes.value_or(0));
      to.seen = later_seen ? second.seen : first.seen;
    }
    std::fill(bins_.begin() + kBins / 2, bins_.end(), Bin{});
    width_log2_++;
  }
  return bins_[std::min<std::size_t>(tick >> width_log2_, kBins - 1)];
}

void TimelineCurve::moved(trace::Tick tick) {
  last_ = std::max(last_, tick);
  Bin& b = bin(tick);
  if (b.used && b.top.live_bytes >= live_) return;
  b.used = true;
  b.top.tick = tick;
  b.top.live_bytes = live_;
}

void TimelineCurve::allocated(const trace::Block& block, trace::Tick tick) {
  live_ += bytes(block.size);
  moved(tick);
}

void TimelineCurve::released(const trace::Block& block, trace::ThreadId, trace::Release, trace::Tick tick) {
  // What was live until now was live in this bin too: a bin that only frees begins at its height.
  moved(tick);
  live_ -= bytes(block.size);
}

void TimelineCurve::vanished(const trace::Block& block, trace::Tick tick) {
  moved(tick);
  live_ -= bytes(block.size);
}

void TimelineCurve::resized(const trace::Block& before, const trace::Block& after, trace::ThreadId, trace::Tick tick) {
  live_ += bytes(after.size) - (before.known ? bytes(before.size) : 0);
  moved(tick);
}

void TimelineCurve::snapshot_taken(const trace::Snapshot& snapshot) {
  const trace::Tick tick = snapshot.begin;
  last_ = std::max(last_, tick);
  Bin& b = bin(tick);
  newest_ = {};
  newest_.tick = tick;
  newest_.live_bytes = live_;
  newest_.rss_bytes = snapshot.rss_bytes;
  if (b.snapshot && b.seen.rss_bytes.value_or(0) > snapshot.rss_bytes) return;
  b.snapshot = true;
  b.seen = newest_;
}

void TimelineCurve::note(trace::Tick tick, std::optional<std::uint64_t> system_bytes,
                         std::optional<std::uint64_t> pinned_bytes) {
  for (CurvePoint* point : {&newest_, &bin(tick).seen}) {
    if (point->tick != tick || !point->rss_bytes) continue;
    point->system_bytes = system_bytes;
    point->pinned_bytes = pinned_bytes;
  }
}

std::vector<CurvePoint> TimelineCurve::points() const {
  std::vector<CurvePoint> points;
  for (const Bin& b : bins_) {
    if (b.used) points.push_back(b.top);
    if (b.snapshot) points.push_back(b.seen);
  }
  // The newest snapshot may have lost its bin to a higher one; the end may be in a bin whose height came before.
  if (newest_.rss_bytes) points.push_back(newest_);
  CurvePoint end;
  end.tick = last_;
  end.live_bytes = live_;
  if (!points.empty()) points.push_back(end);
  std::stable_sort(points.begin(), points.end(), [](const CurvePoint& a, const CurvePoint& b) { return a.tick < b.tick; });
  std::vector<CurvePoint> kept;
  for (const CurvePoint& p : points) {
    const bool same = !kept.empty() && kept.back().tick == p.tick && kept.back().live_bytes == p.live_bytes;
    if (same && (!p.rss_bytes || kept.back().rss_bytes == p.rss_bytes)) continue;
    if (same && !kept.back().rss_bytes)
      kept.back() = p;
    else
      kept.push_back(p);
  }
  return kept;
}

}  // namespace heapspy::model
