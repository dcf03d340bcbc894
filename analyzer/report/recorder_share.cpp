#include "analyzer/report/recorder_share.h"

#include "heapspy/format/layout.h"

namespace heapspy::report {
namespace {

// Of a hook without call stacks, on w1 by CPU time over the floor, where its pages are there (bench/README.md). Nothing for
// mode sample, whose trace does not say how many calls there were, nor for a clock read at every event.
std::optional<double> ns_per_event(const trace::Reader& reader) {
  const format::FileHeader& header = reader.header();
  if (header.clock != format::Clock::stamp || header.stacks != format::Stacks::none) return std::nullopt;
  switch (header.mode) {
    case format::Mode::full: return 2.7;
    case format::Mode::count: return 0.8;
    case format::Mode::ring: return reader.ring() && reader.ring()->whole ? std::optional(2.7) : std::nullopt;
    case format::Mode::sample: break;
  }
  return std::nullopt;
}

}  // namespace

RecorderReport recorder_share(const trace::Reader& reader, std::uint64_t events, const RssReport& at_the_moment) {
  RecorderReport share;
  for (const PartReport& part : at_the_moment.parts)
    if (part.name == kRecorderPart) share.resident_bytes = part.bytes;
  share.dirty_bytes = at_the_moment.recorder_dirty_bytes;
  if (const std::uint64_t ticks = reader.header().recorder_ticks)
    share.measured_s = reader.clock().seconds(ticks) - reader.clock().seconds(0);
  share.ns_per_event = ns_per_event(reader);
  if (share.ns_per_event) share.predicted_s = static_cast<double>(events) * *share.ns_per_event * 1e-9;
  return share;
}

}  // namespace heapspy::report
