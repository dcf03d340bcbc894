// A trim by the recorder: its thread, or the program's next event, calls malloc_trim between two snapshots.
#include <fmt/core.h>

#include "analyzer/cli/command.h"
#include "analyzer/cli/reading_progress.h"
#include "analyzer/cli/recorder_request.h"
#include "analyzer/cli/trim_outcome.h"
#include "analyzer/report/build.h"
#include "analyzer/report/report_json.h"
#include "analyzer/trace/reader.h"

namespace heapspy::cli {
namespace {

using process::LiveProcess;

std::optional<std::uint64_t> rss_now(const LiveProcess& target) {
  const auto totals = process::parse_rollup(target.try_text("smaps_rollup").value_or(""));
  return totals ? std::optional(totals->rss_bytes) : std::nullopt;
}

struct TrimSnapshots {
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t before = kNone, after = kNone;
  bool both() const { return before != kNone && after != kNone; }
};

// The pair around the malloc_trim that the answer is about, not around an earlier one.
TrimSnapshots snapshots_around(const trace::Reader& reader, const process::Answer& answer) {
  TrimSnapshots around;
  for (std::size_t i = 0; i < reader.snapshots(); i++) {
    const format::SnapshotReason reason = reader.snapshot_reason(i);
    const bool earlier = reader.snapshot_tick(i) <= answer.begin_tick;
    if (reason == format::SnapshotReason::before_trim && earlier) around.before = i;
    if (reason == format::SnapshotReason::after_trim && earlier) around.before = TrimSnapshots::kNone;
    if (reason == format::SnapshotReason::after_trim && !earlier && around.after == TrimSnapshots::kNone) around.after = i;
  }
  return around;
}

void add_arenas(const report::Report& before, TrimOutcome& outcome) {
  outcome.arenas = report::report_json(before).at("arenas");
  for (const report::ArenaReport& arena : before.arenas) {
    outcome.rows.push_back({report::arena_label(arena), arena.system_bytes, arena.resident_bytes, arena.live_bytes,
                            arena.trimmable_bytes, arena.pinned_bytes, arena.cached_bytes});
    if (arena.trimmable_bytes) outcome.predicted = outcome.predicted.value_or(0) + *arena.trimmable_bytes;
  }
}

// RSS and the prediction are of the snapshots that the recorder takes right before and right after malloc_trim: what the
// program does in between is as small as it can be. Where it could not write them (disk full, trace deleted), there is no
// prediction, and RSS is what /proc said right before the request and right after the answer.
void read_trace(const std::string& path, const process::Answer& answer, TrimOutcome& outcome) {
  const trace::Reader reader(path);
  outcome.duration_s = reader.clock().seconds(answer.end_tick) - reader.clock().seconds(answer.begin_tick);
  const TrimSnapshots around = snapshots_around(reader, answer);
  if (!around.both()) {
    outcome.unpredicted = "the recorder could not write its snapshots into the trace";
    return;
  }
  outcome.rss_before = reader.snapshot_rss(around.before);
  outcome.rss_after = reader.snapshot_rss(around.after);
  outcome.rss_source = "snapshots";
  // The answer begins after the snapshot before the trim and before the one after it.
  const double moment = reader.clock().seconds(answer.begin_tick);
  model::ModelOptions model_options;
  model_options.at_seconds = moment;
  model_options.progress = reading_progress(path);
  report::BuildOptions report_options;
  report_options.at_seconds = moment;
  add_arenas(report::build_report(reader, model::build_figures(reader, model_options), report_options), outcome);
}

std::string allocator_of(const std::string& path) {
  try {
    return trace::Reader(path).process().allocator;
  } catch (const trace::Unreadable&) {
    return "";
  }
}

}  // namespace

TrimOutcome trim_by_recorder(const LiveProcess& target, process::RecorderLink& link, const TrimOptions& options) {
  if (const std::string allocator = allocator_of(link.trace_path()); !allocator.empty() && allocator != "glibc")
    refuse(
        fmt::format("process {} allocates with {}, and malloc_trim is glibc's; nothing was changed", target.pid(), allocator));
  TrimOutcome outcome;
  outcome.method = "recorder";
  outcome.rss_before = rss_now(target);
  const process::Answer answer =
      ask_recorder(target, link, {.request = format::Request::trim, .action = "a trim", .timeout_s = options.timeout_s});
  if (answer.result != format::RequestResult::done)
    refuse(fmt::format("the recorder of process {} refused: malloc_trim is glibc's, and another allocator answers there",
                       target.pid()));
  outcome.rss_after = rss_now(target);
  try {
    read_trace(link.trace_path(), answer, outcome);
  } catch (const trace::Unreadable& error) {
    outcome.unpredicted = error.what();
  }
  if (target.status().is_locked()) outcome.predicted.reset(), outcome.unpredicted = kLockedMemory;
  if (outcome.rss_before && outcome.rss_after)
    outcome.returned = static_cast<std::int64_t>(*outcome.rss_before) - static_cast<std::int64_t>(*outcome.rss_after);
  return outcome;
}

}  // namespace heapspy::cli
