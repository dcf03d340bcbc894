// heapspy snapshot PID [--json]
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/cli/command.h"
#include "analyzer/cli/recorder_request.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/report/json_values.h"
#include "analyzer/report/printable.h"
#include "analyzer/trace/reader.h"

namespace heapspy::cli {
namespace {

struct SnapshotOptions {
  pid_t pid = 0;
  bool json = false;
  double timeout_s = 10;
};

struct Taken {
  std::string trace;
  std::optional<double> time_s;
  std::optional<std::uint64_t> rss_bytes;  // of the snapshot that the answer is about
};

Taken find_in_trace(const std::string& path, const process::Answer& answer) {
  Taken taken{path, std::nullopt, std::nullopt};
  const trace::Reader reader(path);
  for (std::size_t i = 0; i < reader.snapshots(); i++) {
    const bool meant = reader.snapshot_reason(i) == format::SnapshotReason::requested &&
                       reader.snapshot_tick(i) >= answer.begin_tick && reader.snapshot_tick(i) <= answer.end_tick;
    if (!meant) continue;
    taken.time_s = reader.clock().seconds(reader.snapshot_tick(i));
    taken.rss_bytes = reader.snapshot_rss(i);
  }
  return taken;
}

// In mode ring the rings are frozen into a copy, and the snapshot with them.
std::string written_to(const process::RecorderLink& link) {
  const format::FileHeader header = link.header();
  std::string path = link.trace_path();
  if (header.mode != format::Mode::ring || header.copies == 0) return path;
  constexpr std::string_view kEnding = ".hspy";
  if (path.ends_with(kEnding)) path.resize(path.size() - kEnding.size());
  return fmt::format("{}.{}{}", path, header.copies, kEnding);
}

ExitStatus snapshot(const SnapshotOptions& options) {
  const process::LiveProcess target(options.pid);
  expect_alive(target);
  process::RecorderLink link(target, format::Request::snapshot);
  const process::Answer answer = ask_recorder(
      target, link, {.request = format::Request::snapshot, .action = "a snapshot", .timeout_s = options.timeout_s});
  if (answer.result != format::RequestResult::done)
    throw Failure(
        ExitStatus::target_refused,
        fmt::format("the recorder of process {} could not write the snapshot into {} (disk full, or HEAPSPY_MAX reached?)",
                    options.pid, link.trace_path()));
  const Taken taken = find_in_trace(written_to(link), answer);
  if (options.json) {
    const nlohmann::ordered_json root = {{"schema", "heapspy.snapshot/1"},
                                         {"pid", options.pid},
                                         {"trace", taken.trace},
                                         {"time_s", report::maybe(taken.time_s)},
                                         {"rss_bytes", report::maybe(taken.rss_bytes)}};
    fmt::print("{}\n", root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("RSS {} at {}, in {}\n", taken.rss_bytes ? findings::bytes_text(*taken.rss_bytes) : "?",
               taken.time_s ? findings::seconds_text(*taken.time_s) : "?", report::printable(taken.trace));
  }
  return ExitStatus::done;
}

}  // namespace

void add_snapshot_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<SnapshotOptions>();
  CLI::App* command = app.add_subcommand("snapshot", "a residency snapshot into the trace of a running process");
  command->add_option("PID", options->pid, "the process")->required()->check(process_id());
  command->add_flag("--json", options->json, "print schema heapspy.snapshot/1");
  command->add_option("--timeout", options->timeout_s, "how long to wait for the process's answer")
      ->check(CLI::Range(0.001, 86400.0))
      ->option_text("SECONDS [10]");
  command->footer(example("heapspy snapshot 4242"));
  command->callback([options, &invocation] { invocation.status = snapshot(*options); });
}

}  // namespace heapspy::cli
