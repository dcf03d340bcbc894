#include "analyzer/model/heap_model.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "analyzer/model/counted.h"
#include "analyzer/model/counter_check.h"
#include "analyzer/model/heap_state.h"
#include "analyzer/model/marks.h"

namespace heapspy::model {
namespace {

// The recorder takes a snapshot of a peak when RSS has grown by this since the last.
constexpr double kPeakStep = 0.05;

// Snapshots of which one shows the peak: that of highest RSS, and the first that comes as near to it as the recorder looks.
std::vector<std::size_t> peak_snapshots(const trace::Reader& reader) {
  std::size_t peak = 0, first = 0;
  for (std::size_t i = 0; i < reader.snapshots(); i++)
    if (reader.snapshot_rss(i) > reader.snapshot_rss(peak)) peak = i;
  const auto near = static_cast<double>(reader.snapshots() ? reader.snapshot_rss(peak) : 0) / (1 + kPeakStep);
  while (first < peak && static_cast<double>(reader.snapshot_rss(first)) < near) first++;
  if (!reader.snapshots()) return {};
  return first == peak ? std::vector{peak} : std::vector{first, peak};
}

// RSS may stand as high when everything has been freed as when it was in use, and a little higher: the peak is where the
// program needed it.
void choose_peak(std::vector<Moment>& moments) {
  const auto is_peak = [](const Moment& moment) { return moment.why == Why::peak; };
  const auto first = std::find_if(moments.begin(), moments.end(), is_peak);
  if (first == moments.end()) return;
  const auto highest = std::find_if(first + 1, moments.end(), is_peak);
  if (highest == moments.end()) return;
  const bool needed = first->live_bytes > highest->live_bytes;
  moments.erase(needed ? highest : first);
}

trace::Tick tick_of(const trace::Reader& reader, double seconds) { return seconds > 0 ? reader.clock().ticks(seconds) : 0; }

std::optional<std::size_t> snapshot_at(const trace::Reader& reader, double seconds) {
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < reader.snapshots(); i++)
    if (reader.clock().seconds(reader.snapshot_tick(i)) <= seconds) last = i;
  return last;
}

// A few lost events leave the figures what they are; of more, blocks that live unseen would pass for free memory.
bool loses_much(const trace::Reader& reader) {
  constexpr std::uint64_t kOneIn = 1000;
  std::uint64_t words = 0;
  for (const trace::ThreadStream& stream : reader.threads())
    for (const trace::StreamPiece& piece : stream.pieces) words += piece.words;
  return reader.lost_events() * kOneIn > words;
}

// Heap state and the timeline whose live blocks it asks for.
class Run {
 public:
  Run(const trace::Reader& reader, const HeapFacts& facts, std::vector<WantedMoment> wanted, TimelineCurve* curve,
      std::size_t top_blocks, std::vector<trace::Observer*> before, const trace::InheritedBlocks* inherited)
      : state(
            facts, std::move(wanted), [this](const auto& visit) { timeline.for_each_live(visit); }, curve, top_blocks,
            reader.clock().ticks(1e-3)),
        timeline(reader, with(std::move(before), &state), inherited) {}

  HeapState state;
  trace::Timeline timeline;

 private:
  static std::vector<trace::Observer*> with(std::vector<trace::Observer*> all, trace::Observer* last) {
    all.push_back(last);
    return all;
  }
};

}  // namespace

const Moment* Figures::at(Why why) const {
  for (const Moment& moment : moments)
    if (moment.why == why) return &moment;
  return nullptr;
}

namespace {

void take(Figures& figures, SampledFigures estimated) {
  figures.totals = estimated.totals;
  figures.errors = estimated.errors;
  figures.threads = std::move(estimated.threads);
  figures.thread_errors = std::move(estimated.thread_errors);
  figures.sizes = std::move(estimated.sizes);
  figures.lifetimes = std::move(estimated.lifetimes);
}

void take(Figures& figures, CountedFigures counted) {
  figures.counted = true;
  figures.counted_negative = counted.negative;
  figures.events.events = counted.events;
  figures.totals = counted.totals;
  figures.threads = std::move(counted.threads);
  figures.sizes = std::move(counted.sizes);
}

}  // namespace

Figures build_figures(const trace::Reader& reader, const ModelOptions& options) {
  Figures figures;
  figures.facts = heap_facts(reader.process());
  const format::Mode mode = reader.header().mode;
  figures.calls_missing = loses_much(reader);
  figures.facts.unrecorded |= figures.calls_missing || mode == format::Mode::sample || mode == format::Mode::count ||
                              (reader.ring() && !reader.ring()->whole);
  TotalsCounter totals;
  ThreadStats threads;
  SizeHistogram sizes;
  Lifetimes lifetimes(reader.clock());
  std::optional<SampleEstimates> estimates;
  if (mode == format::Mode::sample) estimates.emplace(reader.header().sample_bytes, reader.clock());
  TimelineCurve curve(estimates ? std::function<std::uint64_t(std::uint64_t)>([&estimates](std::uint64_t size) {
    return static_cast<std::uint64_t>(std::llround(estimates->bytes_for(size)));
  })
                                : nullptr);
  Marks marks;
  SiteScope scope{options.sites, {}};
  if (estimates) scope.weight = [&estimates](std::uint64_t size) { return estimates->weight(size); };
  std::optional<SiteStats> sites_seen;
  if (reader.header().stacks != format::Stacks::none) sites_seen.emplace(scope, reader.clock());

  std::vector<WantedMoment> wanted;
  for (const std::size_t snapshot : peak_snapshots(reader)) wanted.push_back({Why::peak, snapshot});
  if (reader.snapshots()) wanted.push_back({Why::end, reader.snapshots() - 1});
  std::optional<std::size_t> requested;
  if (options.at_seconds) requested = snapshot_at(reader, *options.at_seconds);
  if (requested) wanted.push_back({Why::requested, *requested});

  std::optional<InheritedStats> inherited;
  if (options.parent) inherited.emplace(*options.parent);
  {
    EndedLately ended(options.forks);
    std::vector<trace::Observer*> observers = {&totals, &threads, &sizes, &lifetimes, &curve, &marks};
    if (estimates) observers.push_back(&*estimates);
    if (sites_seen) observers.push_back(&*sites_seen);
    if (inherited) observers.push_back(&*inherited);
    if (!options.forks.empty()) observers.push_back(&ended);
    Run run(reader, figures.facts, std::move(wanted), &curve, options.top_blocks, std::move(observers), options.parent);
    if (sites_seen) run.state.look_at_sites(&scope);
    // What stands in front of the recorder may pass each call on, or answer malloc itself.
    if (!reader.process().front.empty())
      run.state.doubt([&] { return totals.totals().calls.malloc + totals.totals().calls.calloc == 0; });
    if (options.at_snapshot) run.state.tell_of_snapshots(&options.at_snapshot);
    for (std::size_t i = 0; i < options.forks.size(); i++) {
      run.timeline.run(options.forks[i].at, options.progress);
      HeapAtFork heap(options.forks[i], run.timeline, ended, threads, *options.family, options.process);
      heap.live_blocks = totals.totals().live_blocks + (inherited ? inherited->live_blocks() : 0);
      heap.live_bytes = totals.totals().live_bytes + (inherited ? inherited->live_bytes() : 0);
      options.at_fork(i, heap);
      ended.passed_fork();
    }
    if (options.at_seconds && options.forks.empty()) {
      run.timeline.run(tick_of(reader, *options.at_seconds), options.progress);
      figures.live_at_asked = totals.totals().live_bytes;
    }
    figures.events = run.timeline.run(std::nullopt, options.progress);
    figures.moments = std::move(run.state.moments());
    choose_peak(figures.moments);
    figures.concurrency = run.state.concurrency();
    if (run.state.unrecorded() && !reader.process().front.empty()) figures.facts.unrecorded = figures.calls_missing = true;
    // Also where the timeline never came to the last snapshot, as in a damaged trace.
    if (!figures.at(Why::end)) figures.moments.push_back(run.state.moment(Why::end, figures.events.last_tick));
  }
  if (options.at_seconds && !requested) {
    const trace::Tick tick = tick_of(reader, *options.at_seconds);
    Run run(reader, figures.facts, {}, nullptr, options.top_blocks, {}, options.parent);
    if (sites_seen) run.state.look_at_sites(&scope);
    run.timeline.choose_snapshots([](std::size_t) { return false; });
    run.timeline.run(tick);
    figures.moments.push_back(run.state.moment(Why::requested, tick));
  }
  for (Moment& moment : figures.moments) moment.time_s = reader.clock().seconds(moment.tick);
  if (inherited) figures.inherited = inherited->figures();
  figures.totals = totals.totals();
  figures.threads = threads.figures();
  figures.sizes = sizes.rows();
  figures.lifetimes = lifetimes.rows();
  check_counters(reader, figures.threads);
  if (sites_seen) figures.sites = sites_seen->figures(figures.events.last_tick);
  if (estimates) take(figures, estimates->figures(figures.totals, std::move(figures.threads)));
  if (mode == format::Mode::count) take(figures, counted_figures(reader.counters()));
  figures.curve = curve.points();
  figures.marks = marks.kept();
  figures.marks_left_out = marks.left_out();
  return figures;
}

}  // namespace heapspy::model
