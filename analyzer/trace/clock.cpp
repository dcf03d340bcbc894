// Ticks to seconds. Kept apart from the reader: headers come from files, so anything may stand in them.
#include <algorithm>
#include <cmath>

#include "analyzer/trace/reader.h"

namespace heapspy::trace {

namespace {

constexpr double kNanosecond = 1e-9;
// Four cycles at 2.5 GHz: where a trace has only one clock pair, because its process was killed in its first moments.
constexpr double kAssumedTsc4 = 4 / 2.5e9;
// Four cycles at 20 GHz and at 50 MHz: pairs that say otherwise are damaged.
constexpr double kLeastTsc4 = 4 / 20e9, kMostTsc4 = 4 / 50e6;

}  // namespace

Clock::Clock(const format::FileHeader& header) {
  seconds_per_tick_ = header.tick_kind == format::TickKind::tsc4 ? kAssumedTsc4 : kNanosecond;
  if (header.tick_kind != format::TickKind::tsc4) return;  // nanoseconds by definition
  const format::ClockPair &first = header.pairs[0], &last = header.pairs[1];
  if (last.tick <= first.tick || last.monotonic_ns <= first.monotonic_ns) return;
  const double slope =
      static_cast<double>(last.monotonic_ns - first.monotonic_ns) * kNanosecond / static_cast<double>(last.tick - first.tick);
  if (slope >= kLeastTsc4 && slope <= kMostTsc4) seconds_per_tick_ = slope;
}

double Clock::seconds(Tick tick) const { return static_cast<double>(tick) * seconds_per_tick_; }

Tick Clock::ticks(double seconds) const {
  constexpr double kMost = 9.2e18;
  const double ticks = seconds / seconds_per_tick_;
  return std::isnan(ticks) ? 0 : static_cast<Tick>(std::clamp(ticks, 0.0, kMost));
}

}  // namespace heapspy::trace
