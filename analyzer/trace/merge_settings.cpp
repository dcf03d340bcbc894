#include "analyzer/trace/merge_settings.h"

#include <algorithm>

namespace heapspy::trace::merge_settings {

namespace {

// Some times the median error of the estimates.
constexpr double kPatienceSeconds = 19e-6;
// Between two events of a thread before anything is known about it.
constexpr double kUsualStepSeconds = 115e-9;
// Where interruptions are stamped, the last events of a stream came within this of its last stamp.
constexpr double kLastWindowSeconds = 0.1;
// What two CPUs' clocks may differ by, generously.
constexpr double kClockSkewSeconds = 1e-6;
// How far beyond the latest time that is known from elsewhere a stamp may lie: the recorder notes the time in the header
// every 10 ms of activity.
constexpr double kLatestMarginSeconds = 60;
// Stamps this far apart mean that interruptions are stamped (format/layout.h, events_per_stamp).
constexpr std::uint32_t kEventsPerStampWithNotice = 32;

// From the headers of file and chunks, not from words that may be damaged.
Tick latest_known(const Reader& trace) {
  Tick latest = std::max(trace.header().pairs[1].tick, trace.header().end_tick);
  for (const ThreadStream& stream : trace.threads())
    for (const StreamPiece& piece : stream.pieces)
      if (!piece.in_ring) latest = std::max(latest, piece.first_tick);
  if (trace.snapshots()) latest = std::max(latest, trace.snapshot_tick(trace.snapshots() - 1));
  return latest;
}

}  // namespace

Tick patience(const Reader& trace) { return std::max<Tick>(trace.clock().ticks(kPatienceSeconds), 1); }

CursorSettings cursor(const Reader& trace) {
  const Clock& clock = trace.clock();
  CursorSettings settings;
  settings.clock = trace.header().clock;
  settings.usual_step = std::max<Tick>(clock.ticks(kUsualStepSeconds), 1);
  settings.exact_window = std::max<Tick>(clock.ticks(kClockSkewSeconds), 1);
  if (trace.header().events_per_stamp >= kEventsPerStampWithNotice) settings.last_window = clock.ticks(kLastWindowSeconds);
  settings.latest = add(latest_known(trace), clock.ticks(kLatestMarginSeconds));
  return settings;
}

BlockLives::Settings lives(const Reader& trace, const InheritedBlocks* inherited) {
  BlockLives::Settings settings;
  settings.inherited = inherited;
  settings.one_thread = trace.threads().size() < 2;
  settings.forked = trace.header().forked != 0;
  settings.patience = patience(trace);
  settings.partial = trace.ring() && !trace.ring()->whole;
  settings.lossy = trace.lost_events() != 0 || !trace.damage().empty();
  for (const ThreadStream& stream : trace.threads())
    for (const StreamPiece& piece : stream.pieces) settings.lossy |= piece.gap;
  return settings;
}

}  // namespace heapspy::trace::merge_settings
