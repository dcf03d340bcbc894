// heapspy compare [--with LIST] [--repeat N] [--sample SECONDS] [--until TEXT|SECONDS] [--load CMD] [--record FOLDER] [--json]
// -- CMD…
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/cli/command.h"
#include "analyzer/cli/message.h"
#include "analyzer/cli/recorder_library.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/report/json_values.h"
#include "analyzer/report/plot.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/screen.h"
#include "analyzer/trial/compare.h"

namespace heapspy::cli {
namespace {

using findings::bytes_text;
using findings::count_text;
using findings::seconds_text;
using nlohmann::ordered_json;
using trial::Comparison;
using trial::SettingResult;

struct CompareOptions {
  std::string with = "default,arena_max=1,arena_max=2,jemalloc,tcmalloc,mimalloc";
  unsigned repeat = 1;
  bool json = false;
  bool show_output = false;
  double sample = 0;
  std::string until, load, record;
  std::vector<std::string> program;  // for the help only; see Invocation::program
};

ordered_json environment_of(const SettingResult& result) {
  ordered_json environment = ordered_json::object();
  for (const auto& [name, value] : result.recipe.environment) environment[name] = value;
  return environment;
}

ordered_json curve_json(const trial::MeasuredRun& run) {
  if (run.curve.empty()) return {};
  ordered_json curve = ordered_json::array();
  for (const trial::RssPoint& point : run.curve) curve.push_back({{"time_s", point.time_s}, {"rss_bytes", point.rss_bytes}});
  return curve;
}

// Runs in the order in which they were made.
void print_json(const Comparison& comparison, unsigned repeats) {
  ordered_json runs = ordered_json::array(), missing = ordered_json::array();
  for (unsigned repeat = 1; repeat <= repeats; repeat++)
    for (const SettingResult& each : comparison.settings) {
      if (each.tries.size() < repeat) continue;
      const trial::MeasuredRun& run = each.tries[repeat - 1].run;
      runs.push_back({{"setting", each.setting.text},
                      {"environment", environment_of(each)},
                      {"repeat", repeat},
                      {"exit_status", run.exit_status},
                      {"peak_rss_bytes", report::maybe(run.peak_rss_bytes)},
                      {"end_rss_bytes", report::maybe(run.end_rss_bytes)},
                      {"end_anonymous_bytes", report::maybe(run.end_anonymous_bytes)},
                      {"wall_s", run.wall_s},
                      {"cpu_s", run.cpu_s},
                      {"minor_faults", run.minor_faults},
                      {"lock_waits", nullptr},  // nothing that counts them without disturbing the run is at hand
                      {"lock_wait_s", report::maybe(run.lock_wait_s)},
                      {"lock_wait_method", run.lock_wait_s ? ordered_json("sampling") : ordered_json()},
                      {"voluntary_switches", run.voluntary_switches},
                      {"ended_by", run.ended_by_us ? "SIGTERM" : "itself"},
                      {"curve", curve_json(run)},
                      {"process", run.largest_process},
                      {"memory_method", run.method == trial::MemoryMethod::exit_stop ? "exit_stop" : "sampling"},
                      {"in_effect", each.in_effect}});
    }
  for (const SettingResult& each : comparison.settings)
    if (!each.recipe.unavailable.empty())
      missing.push_back({{"setting", each.setting.text}, {"reason", each.recipe.unavailable}});
  const ordered_json root = {{"schema", "heapspy.compare/1"},
                             {"command", comparison.command},
                             {"runs", runs},
                             {"missing", missing},
                             {"advice", comparison.advice}};
  fmt::print("{}\n", root.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

std::string bytes_or_unknown(const std::optional<std::uint64_t>& bytes) {
  return bytes ? bytes_text(*bytes) : std::string("?");
}

// Of the first run of each setting.
void print_curves(const Comparison& comparison) {
  constexpr char kMarks[] = "abcdefghijklmnopqrstuvwxyz";
  std::vector<report::PlotCurve> curves;
  std::string legend;
  for (const SettingResult& each : comparison.settings) {
    if (each.tries.empty() || each.tries[0].run.curve.empty() || curves.size() >= 26) continue;
    report::PlotCurve curve{kMarks[curves.size()], {}};
    for (const trial::RssPoint& point : each.tries[0].run.curve) curve.points.push_back({point.time_s, point.rss_bytes});
    legend += fmt::format("{}{} {}", legend.empty() ? "" : ", ", curve.mark, each.setting.text);
    curves.push_back(std::move(curve));
  }
  const std::vector<std::string> lines = report::plot(curves, report::kWidth, 12);
  if (lines.empty()) return;
  fmt::print("\nRSS of the first runs, sampled: {}\n", legend);
  for (const std::string& line : lines) fmt::print("{}\n", line);
}

void print_text(const Comparison& comparison, unsigned repeats) {
  for (const std::string& line : report::wrap(report::printable(comparison.advice), report::kWidth)) fmt::print("{}\n", line);
  fmt::print("{}\n\n", report::fit(report::command_text(comparison.command), report::kWidth));

  std::size_t width = 14;
  for (const SettingResult& each : comparison.settings) width = std::max(width, each.setting.text.size());
  fmt::print("{:<{}}{:>13}{:>13}{:>11}{:>11}{:>14}{:>11}{:>6}\n", "setting", width, "peak RSS", "end RSS", "wall", "CPU",
             "minor faults", "lock wait", "exit");
  bool sampled = false, not_in_effect = false;
  for (const SettingResult& each : comparison.settings) {
    if (!each.recipe.unavailable.empty()) {
      fmt::print("{:<{}}  {}\n", each.setting.text, width, each.recipe.unavailable);
      continue;
    }
    const trial::Medians& m = each.medians;
    fmt::print("{:<{}}{:>13}{:>13}{:>11}{:>11}{:>14}{:>11}{:>6}{}\n", each.setting.text, width,
               bytes_or_unknown(m.peak_rss_bytes), bytes_or_unknown(m.end_rss_bytes), seconds_text(m.wall_s),
               seconds_text(m.cpu_s), count_text(m.minor_faults), m.lock_wait_s ? seconds_text(*m.lock_wait_s) : "?",
               m.exit_status, each.in_effect ? "" : "  not loaded");
    not_in_effect = not_in_effect || !each.in_effect;
    for (const trial::Try& one : each.tries) sampled = sampled || one.run.method == trial::MemoryMethod::sampling;
  }
  fmt::print("{}", repeats > 1 ? fmt::format("Medians of {} runs each, settings in turn.\n", repeats)
                               : "One run each: times differ by chance too, --repeat 5 tells.\n");
  fmt::print("Lock wait: seconds in futex waits of mutexes and of glibc's arena locks, over all threads, sampled.\n");
  if (not_in_effect)
    fmt::print("Not loaded: the program ignores LD_PRELOAD (static, setuid, or it cleared its environment).\n");
  if (sampled) fmt::print("RSS at the end is from samples every 10 ms: the program could not be held at its exit.\n");

  print_curves(comparison);
  bool first = true;
  for (const SettingResult& each : comparison.settings) {
    const std::string hand = trial::by_hand(each.recipe);
    if (hand.empty()) continue;
    if (first) fmt::print("\nBy hand\n");
    first = false;
    fmt::print("{:<{}}  {}\n", each.setting.text, width, report::printable(hand));
  }
}

// Settings of this shell hold in every run and would pass for the allocator's own ways.
void warn_of_settings_in_force() {
  for (const char* name : {"MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_",
                           "MALLOC_CONF", "GLIBC_TUNABLES"})
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0')
      say(fmt::format("{}={} is set here and holds in every run; unset it to compare with the defaults", name, value));
}

// "90", "2.5": seconds; anything else is text to wait for.
std::optional<double> seconds_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  return error == std::errc{} && end == text.data() + text.size() && value > 0 ? std::optional(value) : std::nullopt;
}

trial::CompanionPlan companion_of(const CompareOptions& options) {
  trial::CompanionPlan plan;
  if (options.sample > 0) plan.sample_s = options.sample;
  plan.until_s = seconds_of(options.until);
  if (!plan.until_s) plan.until_text = options.until;
  if (!options.load.empty()) plan.load = {"/bin/sh", "-c", options.load};
  plan.show_output = options.show_output;
  return plan;
}

ExitStatus compare(const CompareOptions& options, const std::vector<std::string>& command) {
  if (command.empty())
    throw Failure(ExitStatus::wrong_usage,
                  "say which program to run, as in: heapspy compare --with default,arena_max=2 -- CMD");
  trial::ComparePlan plan;
  plan.command = command;
  plan.repeat = options.repeat;
  plan.companion = companion_of(options);
  if (!options.record.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.record, error);
    if (error)
      throw Failure(ExitStatus::wrong_usage,
                    fmt::format("--record: {}: {}", report::printable(options.record), error.message()));
    plan.record_folder = std::filesystem::absolute(options.record);
    plan.recorder = find_recorder_library();
  }
  plan.output = options.show_output ? process::ChildOutput::to_stderr : process::ChildOutput::discard;
  try {
    plan.settings = trial::parse_settings(options.with);
  } catch (const trial::BadSetting& bad) {
    throw Failure(ExitStatus::wrong_usage, fmt::format("--with: {}", bad.what()));
  }
  const bool on_terminal = ::isatty(STDERR_FILENO) != 0;
  if (on_terminal)
    plan.progress = [](std::size_t run, std::size_t runs, const trial::Setting& setting, unsigned) {
      fmt::print(stderr, "\r\033[Krun {} of {}: {}", run, runs, setting.text);
      std::fflush(stderr);
    };
  warn_of_settings_in_force();
  Comparison comparison;
  try {
    comparison = trial::compare(plan);
  } catch (const process::StartError& error) {
    if (on_terminal) fmt::print(stderr, "\r\033[K");
    throw Failure(ExitStatus::wrong_usage, error.what());
  }
  if (on_terminal) fmt::print(stderr, "\r\033[K");
  if (options.json)
    print_json(comparison, options.repeat);
  else
    print_text(comparison, options.repeat);
  if (!options.record.empty() && !options.json)
    fmt::print("\nA trace of one more run of each setting is in {}: heapspy diff BEFORE AFTER\n",
               report::printable(options.record));
  for (const SettingResult& each : comparison.settings)
    // SIGTERM ends many a server without further words.
    if (each.medians.exit_status != 0 && !(each.tries.back().run.ended_by_us && each.medians.exit_status == 128 + SIGTERM))
      say(fmt::format("with {} the program ended with status {}", each.setting.text, each.medians.exit_status));
  return ExitStatus::done;
}

}  // namespace

void add_compare_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand("compare", "runs a program once per allocator setting and tabulates memory and time");
  command->add_option("CMD", options->program, "the program and its arguments; what it prints is dropped");
  command
      ->add_option("--with", options->with,
                   "settings, comma-separated: " + trial::accepted_settings() + "; if not given: " + options->with)
      ->option_text("LIST");
  command->add_option("--repeat", options->repeat, "runs of each setting")->check(CLI::Range(1u, 1000u))->option_text("N [1]");
  command->add_option("--sample", options->sample, "seconds between two samples of RSS, drawn as a curve")
      ->check(CLI::Range(0.01, 1e6))
      ->option_text("SECONDS");
  command
      ->add_option(
          "--until", options->until,
          "for servers: the program gets SIGTERM after so many seconds, or once its output has this text; RSS at the end "
          "is that before")
      ->option_text("TEXT|SECONDS");
  command
      ->add_option("--load", options->load,
                   "a command line for sh, run beside each run; without --until the program gets SIGTERM when it ends")
      ->option_text("CMD");
  command
      ->add_option("--record", options->record,
                   "run each setting once more under the recorder and keep the traces in this folder, for heapspy diff")
      ->option_text("FOLDER");
  command->add_flag("--json", options->json, "print schema heapspy.compare/1");
  command->add_flag("--show-output", options->show_output, "show on stderr what the program prints");
  command->footer(example("heapspy compare --with default,arena_max=2,jemalloc --repeat 3 -- java -jar app.jar"));
  command->callback([options, &invocation] { invocation.status = compare(*options, invocation.program); });
}

}  // namespace heapspy::cli
