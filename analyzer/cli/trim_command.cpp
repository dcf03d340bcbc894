// heapspy trim PID [--json]
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/cli/command.h"
#include "analyzer/cli/reading_progress.h"
#include "analyzer/cli/recorder_request.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/process/live_process.h"
#include "analyzer/process/recorder_link.h"
#include "analyzer/report/build.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/report_json.h"
#include "analyzer/report/screen.h"
#include "analyzer/report/table.h"
#include "analyzer/trace/reader.h"

namespace heapspy::cli {
namespace {

using findings::bytes_text;
using process::LiveProcess;
using process::RecorderLink;

struct Options {
  pid_t pid = 0;
  bool json = false;
  double timeout_s = 10;
};

// RSS and the prediction are of the snapshots that the recorder takes right before and right after malloc_trim: what the
// program does in between is as small as it can be. Where it could not write them (disk full, trace deleted), there is no
// prediction, and RSS is what /proc said right before the request and right after the answer.
struct Trimmed {
  std::optional<std::uint64_t> rss_before, rss_after;
  bool rss_of_snapshots = false;
  std::optional<double> duration_s;      // of malloc_trim alone
  std::optional<report::Report> before;  // what the trace says of the moment before; nullopt: it could not be read
  std::string unread;                    // why

  std::optional<std::uint64_t> predicted() const { return sum(&report::ArenaReport::trimmable_bytes); }
  std::optional<std::int64_t> returned() const {
    if (!rss_before || !rss_after) return std::nullopt;
    return static_cast<std::int64_t>(*rss_before) - static_cast<std::int64_t>(*rss_after);
  }
  // Over all arenas; nullopt when not even one is known.
  std::optional<std::uint64_t> sum(report::Bytes report::ArenaReport::*member) const {
    std::optional<std::uint64_t> total;
    if (!before) return total;
    for (const report::ArenaReport& arena : before->arenas)
      if (arena.*member) total = total.value_or(0) + *(arena.*member);
    return total;
  }
};

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

void read_trace(const std::string& path, const process::Answer& answer, Trimmed& trimmed) {
  const trace::Reader reader(path);
  trimmed.duration_s = reader.clock().seconds(answer.end_tick) - reader.clock().seconds(answer.begin_tick);
  const TrimSnapshots around = snapshots_around(reader, answer);
  if (!around.both()) {
    trimmed.unread = "the recorder could not write its snapshots into the trace";
    return;
  }
  trimmed.rss_before = reader.snapshot_rss(around.before);
  trimmed.rss_after = reader.snapshot_rss(around.after);
  trimmed.rss_of_snapshots = true;
  // The answer begins after the snapshot before the trim and before the one after it.
  const double moment = reader.clock().seconds(answer.begin_tick);
  model::ModelOptions model_options;
  model_options.at_seconds = moment;
  model_options.progress = reading_progress(path);
  report::BuildOptions report_options;
  report_options.at_seconds = moment;
  trimmed.before = report::build_report(reader, model::build_figures(reader, model_options), report_options);
}

template <typename Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

void print_json(pid_t pid, const Trimmed& trimmed) {
  nlohmann::ordered_json arenas = nlohmann::ordered_json::array();
  if (trimmed.before) arenas = report::report_json(*trimmed.before).at("arenas");
  const nlohmann::ordered_json root = {{"schema", "heapspy.trim/1"},
                                       {"pid", pid},
                                       {"method", "recorder"},
                                       {"predicted_bytes", or_null(trimmed.predicted())},
                                       {"returned_bytes", or_null(trimmed.returned())},
                                       {"rss_before_bytes", or_null(trimmed.rss_before)},
                                       {"rss_after_bytes", or_null(trimmed.rss_after)},
                                       {"rss_source", trimmed.rss_of_snapshots ? "snapshots" : "smaps_rollup"},
                                       {"duration_s", or_null(trimmed.duration_s)},
                                       {"arenas", arenas}};
  fmt::print("{}", report::dump_json(root));
}

std::string bytes_or_unknown(const std::optional<std::uint64_t>& bytes) {
  return bytes ? bytes_text(*bytes) : std::string("?");
}

std::string signed_bytes(const std::optional<std::int64_t>& bytes) {
  if (!bytes) return "?";
  return (*bytes < 0 ? "-" : "") + bytes_text(static_cast<std::uint64_t>(std::llabs(*bytes)));
}

// " (0.3 % less than predicted)"; "" where so little was predicted that a share of it says nothing.
std::string difference(const Trimmed& trimmed) {
  const auto predicted = trimmed.predicted();
  const auto returned = trimmed.returned();
  if (!predicted || !returned || *predicted < (1u << 20)) return "";
  const double share = (static_cast<double>(*returned) - static_cast<double>(*predicted)) / static_cast<double>(*predicted);
  if (std::fabs(share) < 0.0005) return " (as predicted)";
  return fmt::format(" ({:.1f} % {} than predicted)", std::fabs(share) * 100, share < 0 ? "less" : "more");
}

void print_arenas(const report::Report& before) {
  report::Table table({"Arenas before", "system", "resident", "live", "trimmable", "pinned", "cached"});
  constexpr std::size_t kRows = 8;
  std::vector<const report::ArenaReport*> arenas;
  for (const report::ArenaReport& arena : before.arenas) arenas.push_back(&arena);
  std::stable_sort(arenas.begin(), arenas.end(), [](const auto* a, const auto* b) {
    return a->trimmable_bytes.value_or(0) > b->trimmable_bytes.value_or(0);
  });
  for (std::size_t i = 0; i < std::min(arenas.size(), kRows); i++)
    table.add({report::arena_label(*arenas[i]), bytes_or_unknown(arenas[i]->system_bytes),
               bytes_or_unknown(arenas[i]->resident_bytes), bytes_or_unknown(arenas[i]->live_bytes),
               bytes_or_unknown(arenas[i]->trimmable_bytes), bytes_or_unknown(arenas[i]->pinned_bytes),
               bytes_or_unknown(arenas[i]->cached_bytes)});
  fmt::print("\n");
  for (const std::string& line : table.lines(report::kWidth)) fmt::print("{}\n", line);
  if (arenas.size() > kRows) fmt::print("and {} more arenas\n", arenas.size() - kRows);
}

void print_text(const LiveProcess& target, const Trimmed& trimmed) {
  fmt::print("predicted {}, returned {}{}, took {}\n", bytes_or_unknown(trimmed.predicted()), signed_bytes(trimmed.returned()),
             difference(trimmed), trimmed.duration_s ? findings::seconds_text(*trimmed.duration_s) : "?");
  fmt::print("{}   pid {}\n", report::fit(report::command_text(target.command()), 80), target.pid());
  fmt::print("RSS {} before, {} after{}\n", bytes_or_unknown(trimmed.rss_before), bytes_or_unknown(trimmed.rss_after),
             trimmed.rss_of_snapshots ? "" : " (by /proc, before the request and after the answer)");
  if (!trimmed.before) {
    fmt::print("No prediction: {}\n", report::printable(trimmed.unread));
    return;
  }
  fmt::print("\nWhat remains of malloc's memory, and why\n");
  report::Table table({"", "resident", ""});
  table.align_left(2);
  std::uint64_t live = 0;
  for (const report::ArenaReport& arena : trimmed.before->arenas) live += arena.live_bytes.value_or(0);
  table.add({"live", bytes_text(live), "asked for and not freed (resident or not)"});
  table.add({"pinned", bytes_or_unknown(trimmed.sum(&report::ArenaReport::pinned_bytes)),
             "free, on pages that hold a live block too"});
  table.add({"cached", bytes_or_unknown(trimmed.sum(&report::ArenaReport::cached_bytes)),
             "free, in thread caches, fast bins and tops of secondary arenas"});
  const std::vector<std::string> lines = table.lines(report::kWidth);
  for (std::size_t i = 1; i < lines.size(); i++) fmt::print("{}\n", lines[i]);
  print_arenas(*trimmed.before);
}

std::string allocator_of(const std::string& path) {
  try {
    return trace::Reader(path).process().allocator;
  } catch (const trace::Unreadable&) {
    return "";
  }
}

[[noreturn]] void refuse(const std::string& line) { throw Failure(ExitStatus::target_refused, line); }

void refuse_what_is_not_glibc(pid_t pid, const std::string& trace_path) {
  const std::string allocator = allocator_of(trace_path);
  if (!allocator.empty() && allocator != "glibc")
    refuse(fmt::format("process {} allocates with {}, and malloc_trim is glibc's; nothing was changed", pid, allocator));
}

ExitStatus trim(const Options& options) {
  const LiveProcess target(options.pid);
  expect_alive(target);
  RecorderLink link(target);
  refuse_what_is_not_glibc(options.pid, link.trace_path());
  Trimmed trimmed;
  trimmed.rss_before = rss_now(target);
  const process::Answer answer =
      ask_recorder(target, link, {.request = format::Request::trim, .action = "a trim", .timeout_s = options.timeout_s});
  if (answer.result != format::RequestResult::done)
    refuse(fmt::format("the recorder of process {} refused: malloc_trim is glibc's, and another allocator answers there",
                       options.pid));
  trimmed.rss_after = rss_now(target);
  try {
    read_trace(link.trace_path(), answer, trimmed);
  } catch (const trace::Unreadable& error) {
    trimmed.unread = error.what();
  }
  if (options.json)
    print_json(options.pid, trimmed);
  else
    print_text(target, trimmed);
  return ExitStatus::done;
}

}  // namespace

void add_trim_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("trim", "runs malloc_trim in a process under the recorder: predicted and returned");
  command->add_option("PID", options->pid, "the process")->required()->check(process_id());
  command->add_flag("--json", options->json, "print schema heapspy.trim/1");
  command->add_option("--timeout", options->timeout_s, "how long to wait for the process's answer")
      ->check(CLI::Range(0.001, 86400.0))
      ->option_text("SECONDS [10]");
  command->footer(example("heapspy trim 4242"));
  command->callback([options, &invocation] { invocation.status = trim(*options); });
}

}  // namespace heapspy::cli
