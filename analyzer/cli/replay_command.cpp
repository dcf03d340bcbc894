// heapspy replay TRACE [--with LIST] [--repeat N] [--touch estimated|all|none] [--json]
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "analyzer/cli/command.h"
#include "analyzer/cli/message.h"
#include "analyzer/cli/reading_progress.h"
#include "analyzer/cli/recorder_library.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/process/child_process.h"
#include "analyzer/report/drawing.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/screen.h"
#include "analyzer/trial/replay.h"

namespace heapspy::cli {
namespace {

using findings::bytes_text;
using findings::count_text;
using findings::seconds_text;
using nlohmann::ordered_json;
using trial::Replayed;
using trial::ReplayedSetting;

struct Options {
  std::string trace, with = "default,arena_max=1,arena_max=2,trim_threshold=128KiB,jemalloc,tcmalloc,mimalloc";
  std::string touch = "estimated";
  unsigned repeat = 1;
  bool json = false;
};

trial::Touch touch_of(const std::string& word) {
  return word == "all" ? trial::Touch::all : word == "none" ? trial::Touch::none : trial::Touch::estimated;
}

ordered_json curve_json(const Replayed& run) {
  ordered_json curve = ordered_json::array();
  for (const trial::CurvePoint& point : run.curve)
    curve.push_back({{"time_s", point.time_s}, {"heap_bytes", point.heap_bytes}});
  return curve;
}

void print_json(const Options& options, const trial::Replay& replay) {
  ordered_json runs = ordered_json::array(), missing = ordered_json::array();
  for (const ReplayedSetting& each : replay.settings) {
    ordered_json environment = ordered_json::object();
    for (const auto& [name, value] : each.recipe.environment) environment[name] = value;
    for (std::size_t i = 0; i < each.tries.size(); i++) {
      const Replayed& run = each.tries[i];
      runs.push_back({{"setting", each.setting.text},
                      {"environment", environment},
                      {"repeat", i + 1},
                      {"operations", run.operations},
                      {"peak_heap_bytes", run.peak_heap_bytes},
                      {"end_heap_bytes", run.end_heap_bytes},
                      {"arenas", run.arenas ? ordered_json(*run.arenas) : ordered_json()},
                      {"wall_s", run.wall_s},
                      {"cpu_s", run.cpu_s},
                      {"minor_faults", run.minor_faults},
                      {"lock_waits", nullptr},  // calls are played one after another: nobody waits for a lock
                      {"lock_wait_s", nullptr},
                      {"failed", run.failed},
                      {"curve", curve_json(run)}});
    }
    const std::string& reason = each.recipe.unavailable.empty() ? each.problem : each.recipe.unavailable;
    if (!reason.empty()) missing.push_back({{"setting", each.setting.text}, {"reason", reason}});
  }
  const ordered_json root = {{"schema", "heapspy.replay/1"}, {"trace", options.trace}, {"touch", options.touch},
                             {"left_out", replay.left_out},  {"runs", runs},           {"missing", missing},
                             {"advice", replay.advice}};
  fmt::print("{}\n", root.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

// Its own peak is the full height: how it goes, not how much.
std::string course(const Replayed& run) {
  constexpr std::size_t kColumns = 24;
  std::vector<std::optional<std::uint64_t>> heights(kColumns);
  const double end = run.curve.empty() ? 0 : std::max(run.curve.back().time_s, 1e-9);
  for (const trial::CurvePoint& point : run.curve) {
    auto& height = heights[std::min(kColumns - 1, static_cast<std::size_t>(point.time_s / end * kColumns))];
    height = std::max(height.value_or(0), point.heap_bytes);
  }
  for (std::size_t i = 1; i < kColumns; i++)
    if (!heights[i]) heights[i] = heights[i - 1];
  return report::sparkline(heights);
}

// Least and most over the repeats, where there are several.
std::string spread(const ReplayedSetting& each) {
  if (each.tries.size() < 2) return "";
  const auto [least, most] =
      std::minmax_element(each.tries.begin(), each.tries.end(),
                          [](const Replayed& a, const Replayed& b) { return a.peak_heap_bytes < b.peak_heap_bytes; });
  return fmt::format("  peak {} to {}", bytes_text(least->peak_heap_bytes), bytes_text(most->peak_heap_bytes));
}

void print_text(const Options& options, const trial::Replay& replay) {
  for (const std::string& line : report::wrap(report::printable(replay.advice), report::kWidth)) fmt::print("{}\n", line);
  std::size_t width = 14;
  for (const ReplayedSetting& each : replay.settings) width = std::max(width, each.setting.text.size());
  fmt::print("\n{:<{}}{:>12}{:>12}{:>8}{:>10}{:>14}  heap over time\n", "setting", width, "heap peak", "heap end", "arenas",
             "CPU", "minor faults");
  for (const ReplayedSetting& each : replay.settings) {
    const Replayed* run = each.middle();
    if (!run) {
      fmt::print("{:<{}}  {}\n", each.setting.text, width,
                 each.recipe.unavailable.empty() ? each.problem : each.recipe.unavailable);
      continue;
    }
    fmt::print("{:<{}}{:>12}{:>12}{:>8}{:>10}{:>14}  {}{}\n", each.setting.text, width, bytes_text(run->peak_heap_bytes),
               bytes_text(run->end_heap_bytes), run->arenas ? count_text(*run->arenas) : "-", seconds_text(run->cpu_s),
               count_text(run->minor_faults), course(*run), spread(each));
  }
  if (options.touch == "estimated")
    fmt::print(
        "Pages of blocks from 8 KiB on are written as snapshots saw them in RAM: an estimate from above (--touch all, none: "
        "the bounds).\n");
  if (replay.left_out)
    fmt::print("{} calls are left out: of blocks that the trace does not know.\n", count_text(replay.left_out));
  bool first = true;
  for (const ReplayedSetting& each : replay.settings) {
    const std::string hand = trial::by_hand(each.recipe);
    if (hand.empty()) continue;
    if (first) fmt::print("\nBy hand\n");
    first = false;
    fmt::print("{:<{}}  {}\n", each.setting.text, width, report::printable(hand));
  }
  fmt::print("\nNext: heapspy compare --with … -- CMD   (the program itself, where it can be run again)\n");
}

ExitStatus run(const Options& options) {
  trial::ReplayPlan plan;
  try {
    plan.settings = trial::parse_settings(options.with);
  } catch (const trial::BadSetting& bad) {
    throw Failure(ExitStatus::wrong_usage, fmt::format("--with: {}", bad.what()));
  }
  plan.touch = touch_of(options.touch);
  plan.repeat = options.repeat;
  plan.replayer = find_replayer();
  const trace::Reader reader(options.trace);
  if (reader.header().mode != format::Mode::full)
    throw Failure(ExitStatus::unreadable, fmt::format("{} does not hold every call; replay needs a trace of mode full",
                                                      report::printable(options.trace)));
  plan.preparing = reading_progress(options.trace);
  const bool on_terminal = ::isatty(STDERR_FILENO) != 0;
  if (on_terminal)
    plan.progress = [](std::size_t number, std::size_t runs, const trial::Setting& setting) {
      fmt::print(stderr, "\r\033[Kreplay {} of {}: {}", number, runs, setting.text);
      std::fflush(stderr);
    };
  trial::Replay replay;
  try {
    replay = trial::replay(reader, plan);
  } catch (const trial::OperationsNotWritten& why) {
    throw Failure(ExitStatus::unreadable, why.what());
  } catch (const process::StartError& why) {
    throw Failure(ExitStatus::unreadable, why.what());
  }
  plan.preparing = {};
  if (on_terminal) fmt::print(stderr, "\r\033[K");
  options.json ? print_json(options, replay) : print_text(options, replay);
  return ExitStatus::done;
}

}  // namespace

void add_replay_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("replay", "plays a trace's calls again under allocator settings, each in a process of its own");
  command->add_option("TRACE", options->trace, "a trace of mode full")->required();
  command
      ->add_option("--with", options->with,
                   "settings, comma-separated: " + trial::accepted_settings() + "; if not given: " + options->with)
      ->option_text("LIST");
  command->add_option("--repeat", options->repeat, "replays of each setting")
      ->check(CLI::Range(1u, 1000u))
      ->option_text("N [1]");
  command
      ->add_option("--touch", options->touch,
                   "which pages of large blocks are written: estimated (from snapshots), all or none")
      ->type_name("HOW")
      ->check(one_of({"estimated", "all", "none"}));
  command->add_flag("--json", options->json, "print schema heapspy.replay/1");
  command->footer(example("heapspy replay heapspy.java.4242.*.hspy --with default,arena_max=2,jemalloc"));
  command->callback([options, &invocation] { invocation.status = run(*options); });
}

}  // namespace heapspy::cli
