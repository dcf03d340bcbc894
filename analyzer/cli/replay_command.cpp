// heapspy replay TRACE [--with LIST] [--repeat N] [--touch recorded|all|none] [--order total|window] [--cpus N] [--ledger]
// [--json]
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
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
#include "analyzer/process/live_process.h"
#include "analyzer/report/inspection.h"
#include "analyzer/report/json_values.h"
#include "analyzer/report/plot.h"
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

struct ReplayOptions {
  std::string trace, with = "default,arena_max=1,arena_max=2,trim_threshold=128KiB,jemalloc,tcmalloc,mimalloc";
  std::string touch = "recorded", order = "total";
  unsigned repeat = 1, cpus = 0;
  bool json = false, ledger = false;
  bool ranges() const { return order == "total"; }
};

trial::Touch touch_of(const std::string& word) {
  return word == "all" ? trial::Touch::all : word == "none" ? trial::Touch::none : trial::Touch::recorded;
}

ordered_json curve_json(const Replayed& run) {
  ordered_json curve = ordered_json::array();
  for (const trial::CurvePoint& point : run.curve)
    curve.push_back({{"time_s", point.time_s}, {"heap_bytes", point.heap_bytes}});
  return curve;
}

std::string touch_word(const ReplayOptions& options, const trial::Replay& replay) {
  return options.touch == "recorded" && !replay.touch_is_told ? "estimated" : options.touch;
}

ordered_json range_json(const ReplayOptions& options, const trial::Range& range) {
  return options.ranges() ? ordered_json({range.least, range.most}) : ordered_json();
}

ordered_json memory_calls_json(const std::optional<trial::MemoryCalls>& calls) {
  if (!calls) return {};
  return {{"brk", calls->brk},       {"mmap", calls->mmap},         {"munmap", calls->munmap},
          {"mremap", calls->mremap}, {"mprotect", calls->mprotect}, {"madvise", calls->madvise}};
}

ordered_json ledger_json(const ReplayedSetting& each) {
  if (each.ledger_at_peak.empty() && each.ledger_at_end.empty()) return {};
  const auto parts = [](const std::vector<trial::LedgerPart>& ledger) {
    ordered_json list = ordered_json::array();
    for (const trial::LedgerPart& part : ledger) list.push_back({{"name", part.name}, {"bytes", part.bytes}});
    return ledger.empty() ? ordered_json() : list;
  };
  return {{"peak", parts(each.ledger_at_peak)}, {"end", parts(each.ledger_at_end)}};
}

// The heap of a replay that waits, taken apart; nothing where that cannot be done.
std::vector<trial::LedgerPart> look(pid_t pid) {
  std::vector<trial::LedgerPart> parts;
  try {
    const report::Inspection inspection = report::inspect_process(process::LiveProcess(pid), false);
    if (!inspection.heap) return {};
    for (const report::PartReport& part : inspection.rss.parts)
      if (part.name.starts_with("malloc: ")) parts.push_back({part.name.substr(8), part.bytes});
  } catch (const process::TargetError&) {
    return {};
  }
  return parts;
}

void print_json(const ReplayOptions& options, const trial::Replay& replay) {
  ordered_json runs = ordered_json::array(), missing = ordered_json::array();
  for (const ReplayedSetting& each : replay.settings) {
    ordered_json environment = ordered_json::object();
    for (const auto& [name, value] : each.recipe.environment) environment[name] = value;
    for (std::size_t i = 0; i < each.tries.size(); i++) {
      const Replayed& run = each.tries[i];
      const Replayed& cost = each.at_once ? *each.at_once : run;
      runs.push_back({{"setting", each.setting.text},
                      {"environment", environment},
                      {"repeat", i + 1},
                      {"operations", run.operations},
                      {"peak_heap_bytes", run.peak_heap_bytes},
                      {"end_heap_bytes", run.end_heap_bytes},
                      {"arenas", run.arenas ? ordered_json(*run.arenas) : ordered_json()},
                      {"peak_heap_range_bytes", range_json(options, each.peak_range)},
                      {"end_heap_range_bytes", range_json(options, each.end_range)},
                      {"order", options.order},
                      // Of threads that play at once, where they were; one after the other nobody waits.
                      {"cost_order", each.at_once ? "window" : options.order},
                      {"wall_s", cost.wall_s},
                      {"cpu_s", cost.cpu_s},
                      {"minor_faults", cost.minor_faults},
                      {"lock_waits", report::maybe(cost.lock_waits)},
                      {"lock_wait_s", report::maybe(cost.lock_wait_s)},
                      {"syscalls", memory_calls_json(each.memory_calls)},
                      {"failed", run.failed},
                      {"ledger", ledger_json(each)},
                      {"curve", curve_json(run)}});
    }
    const std::string& reason = each.recipe.unavailable.empty() ? each.problem : each.recipe.unavailable;
    if (!reason.empty()) missing.push_back({{"setting", each.setting.text}, {"reason", reason}});
  }
  const ordered_json root = {
      {"schema", "heapspy.replay/1"}, {"trace", options.trace},    {"touch", touch_word(options, replay)},
      {"left_out", replay.left_out},  {"threads", replay.threads}, {"runs", runs},
      {"missing", missing},           {"notes", replay.notes},     {"advice", replay.advice}};
  fmt::print("{}\n", root.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

// One letter each: the first of the name that no other has taken, else a digit.
std::vector<char> marks_of(const std::vector<ReplayedSetting>& settings) {
  std::vector<char> marks;
  const auto taken = [&](char c) { return std::find(marks.begin(), marks.end(), c) != marks.end(); };
  for (const ReplayedSetting& each : settings) {
    const std::string& name = each.setting.text;
    // arena_max=2: the number says more than the name.
    std::string wishes = name.find("arena_max=") == 0 ? name.substr(name.find('=') + 1) + name : name;
    wishes += "0123456789#";
    for (const char c : wishes)
      if (std::isalnum(static_cast<unsigned char>(c)) && !taken(c)) {
        marks.push_back(c);
        break;
      }
    if (marks.size() <= static_cast<std::size_t>(&each - settings.data())) marks.push_back('#');
  }
  return marks;
}

void print_plot(const trial::Replay& replay, const std::vector<char>& marks) {
  std::vector<report::PlotCurve> curves;
  std::string legend;
  for (std::size_t i = 0; i < replay.settings.size(); i++) {
    const Replayed* run = replay.settings[i].middle();
    if (!run) continue;
    report::PlotCurve curve{marks[i], {}};
    for (const trial::CurvePoint& point : run->curve) curve.points.push_back({point.time_s, point.heap_bytes});
    curves.push_back(std::move(curve));
  }
  const std::vector<std::string> lines = report::plot(curves, report::kWidth, 14);
  if (lines.empty()) return;
  fmt::print("\nHeap in RAM over the trace's time (where curves meet, the setting named first is seen)\n");
  for (const std::string& line : lines) fmt::print("{}\n", line);
}

// One line a setting and moment: what the heap in RAM was made of.
void print_ledgers(const trial::Replay& replay, std::size_t width) {
  std::vector<std::string> names;
  for (const ReplayedSetting& each : replay.settings)
    for (const auto* ledger : {&each.ledger_at_peak, &each.ledger_at_end})
      for (const trial::LedgerPart& part : *ledger)
        if (part.bytes && std::find(names.begin(), names.end(), part.name) == names.end()) names.push_back(part.name);
  if (names.empty()) {
    fmt::print("\nNo heap could be taken apart: only those of the C library's allocator can, where ptrace is allowed.\n");
    return;
  }
  fmt::print("\nWhat the heap was made of, by heapspy inspect\n  {:<{}}      ", "", width);
  for (const std::string& name : names) fmt::print("{:>{}}", name, std::max<std::size_t>(name.size() + 2, 12));
  fmt::print("\n");
  for (const ReplayedSetting& each : replay.settings)
    for (const bool at_end : {false, true}) {
      const std::vector<trial::LedgerPart>& ledger = at_end ? each.ledger_at_end : each.ledger_at_peak;
      if (ledger.empty()) continue;
      fmt::print("  {:<{}}  {}", at_end ? "" : each.setting.text, width, at_end ? "end " : "peak");
      for (const std::string& name : names) {
        const auto part = std::find_if(ledger.begin(), ledger.end(), [&](const auto& one) { return one.name == name; });
        fmt::print("{:>{}}", part == ledger.end() ? "-" : bytes_text(part->bytes), std::max<std::size_t>(name.size() + 2, 12));
      }
      fmt::print("\n");
    }
}

std::string range_text(const trial::Range& range) {
  return fmt::format("{} to {}", bytes_text(range.least), bytes_text(range.most));
}

void print_text(const ReplayOptions& options, const trial::Replay& replay) {
  for (const std::string& line : report::wrap(report::printable(replay.advice), report::kWidth)) fmt::print("{}\n", line);
  std::size_t width = 14;
  for (const ReplayedSetting& each : replay.settings) width = std::max(width, each.setting.text.size());
  const std::vector<char> marks = marks_of(replay.settings);
  const bool waits = replay.threads > 1 && options.ranges();
  fmt::print("\n  {:<{}}{:>11}{:>11}{:>8}{:>10}{:>9}{}{}\n", "setting", width, "heap peak", "heap end", "arenas", "CPU",
             "faults", waits ? "  lock waits" : "", options.ranges() ? " syscalls  peak between" : "");
  for (std::size_t i = 0; i < replay.settings.size(); i++) {
    const ReplayedSetting& each = replay.settings[i];
    const Replayed* run = each.middle();
    if (!run) {
      fmt::print("  {:<{}}  {}\n", each.setting.text, width,
                 each.recipe.unavailable.empty() ? report::printable(each.problem) : each.recipe.unavailable);
      continue;
    }
    const Replayed& cost = *each.cost();
    fmt::print("{} {:<{}}{:>11}{:>11}{:>8}{:>10}{:>9}", marks[i], each.setting.text, width, bytes_text(run->peak_heap_bytes),
               bytes_text(run->end_heap_bytes), run->arenas ? count_text(*run->arenas) : "-", seconds_text(cost.cpu_s),
               count_text(cost.minor_faults));
    if (waits) fmt::print("{:>12}", cost.lock_waits ? count_text(*cost.lock_waits) : "?");
    if (options.ranges())
      fmt::print("{:>9}  {}", each.memory_calls ? count_text(each.memory_calls->all()) : "?", range_text(each.peak_range));
    fmt::print("\n");
  }
  if (options.ranges()) fmt::print("Syscalls: brk, mmap, munmap, mremap, mprotect, madvise (--json has each).\n");
  if (options.ledger) print_ledgers(replay, width);
  print_plot(replay, marks);
  for (const std::string& note : replay.notes) fmt::print("Note: {}.\n", note);
  if (touch_word(options, replay) == "estimated")
    fmt::print(
        "Pages of blocks from 8 KiB on are written as snapshots saw them in RAM: an estimate from above (--touch all, none: "
        "the bounds; HEAPSPY_TOUCH=on records it).\n");
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

ExitStatus run(const ReplayOptions& options) {
  trial::ReplayPlan plan;
  try {
    plan.settings = trial::parse_settings(options.with);
  } catch (const trial::BadSetting& bad) {
    throw Failure(ExitStatus::wrong_usage, fmt::format("--with: {}", bad.what()));
  }
  plan.touch = touch_of(options.touch);
  plan.repeat = options.repeat;
  plan.order = options.order == "window" ? trial::Order::window : trial::Order::total;
  plan.ranges = plan.count_memory_calls = options.ranges();
  if (options.ranges() && (options.json || options.ledger)) plan.look = look;
  if (options.cpus) plan.cpus = options.cpus;
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
  auto options = std::make_shared<ReplayOptions>();
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
      ->add_option(
          "--touch", options->touch,
          "which pages of large blocks are written: recorded (by HEAPSPY_TOUCH; else estimated from snapshots), all or none")
      ->type_name("HOW")
      ->check(one_of({"recorded", "all", "none"}));
  command
      ->add_option("--order", options->order,
                   "total: each call when it was made; window: threads at once within 4096 calls or 1 ms, faster, no ranges")
      ->type_name("HOW")
      ->check(one_of({"total", "window"}));
  command
      ->add_option("--cpus", options->cpus, "arenas are limited as on a machine with so many; if not given: the recorded one")
      ->check(CLI::Range(1u, 100000u))
      ->option_text("N");
  command->add_flag(
      "--ledger", options->ledger,
      "also what each heap was made of at its peak and its end, where it is the C library's: live, pinned, trimmable …");
  command->add_flag("--json", options->json, "print schema heapspy.replay/1");
  command->footer(example("heapspy replay heapspy.java.4242.*.hspy --with default,arena_max=2,jemalloc"));
  command->callback([options, &invocation] { invocation.status = run(*options); });
}

}  // namespace heapspy::cli
