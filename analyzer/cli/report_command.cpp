// heapspy report TRACE… [--json] [--at peak|end|SECONDS] [--by process|thread|size|arena] [--top N]
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "analyzer/cli/command.h"
#include "analyzer/cli/reading_progress.h"
#include "analyzer/report/build.h"
#include "analyzer/report/merged_build.h"
#include "analyzer/report/merged_json.h"
#include "analyzer/report/merged_text.h"
#include "analyzer/report/report_json.h"
#include "analyzer/report/report_text.h"

namespace heapspy::cli {
namespace {

struct Options {
  std::vector<std::string> traces;
  bool json = false;
  std::string at, by;
  std::size_t top = 0;  // 0: not given
};

std::optional<double> seconds_in(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size() || !(seconds >= 0 && seconds < 1e12)) return std::nullopt;
  return seconds;
}

// A folder stands for the traces in it, by name.
std::vector<std::string> with_folders_opened(const std::vector<std::string>& given) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  for (const std::string& path : given) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      paths.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
      if (at->path().extension() == ".hspy") inside.push_back(at->path().string());
    if (error)
      throw Failure(ExitStatus::unreadable, fmt::format("{} cannot be read: {}; check the folder", path, error.message()));
    if (inside.empty())
      throw Failure(ExitStatus::unreadable,
                    fmt::format("{} holds no trace (*.hspy); name the folder that HEAPSPY_OUT points to", path));
    std::sort(inside.begin(), inside.end());
    paths.insert(paths.end(), inside.begin(), inside.end());
  }
  return paths;
}

report::By by_of(const std::string& word) {
  if (word == "process") return report::By::process;
  if (word == "thread") return report::By::thread;
  if (word == "size") return report::By::size;
  return word == "arena" ? report::By::arena : report::By::everything;
}

// What the report calls the traces: the folder, or all of them.
std::string name_of(const std::vector<std::string>& given) {
  std::string name;
  for (const std::string& each : given) name += (name.empty() ? "" : " ") + each;
  return name;
}

ExitStatus run_merged(const Options& options, const std::vector<std::string>& paths, const report::TextOptions& text) {
  const auto refuse = [](const char* what) {
    throw Failure(ExitStatus::wrong_usage,
                  fmt::format("{}; name one trace for that, heapspy report … --by process lists them", what));
  };
  if (text.by == report::By::arena) refuse("--by arena: arenas are of one process");
  if (!options.at.empty() && options.at != "end" && options.at != "peak") refuse("--at SECONDS is about one process's time");
  report::MergeOptions merge;
  merge.at_end = options.at == "end";
  const std::string name = name_of(options.traces);
  merge.progress = reading_progress(name);
  const report::MergedReport merged = report::build_merged(paths, name, merge);
  merge.progress = {};
  if (options.json) {
    fmt::print("{}", report::dump_json(report::merged_json(merged)));
    return ExitStatus::done;
  }
  for (const std::string& line : report::merged_text(merged, text)) fmt::print("{}\n", line);
  return ExitStatus::done;
}

ExitStatus run(const Options& options) {
  report::BuildOptions build;
  build.verdicts_at_moment = !options.at.empty();
  if (options.at == "end")
    build.at = report::BuildOptions::At::end;
  else if (!options.at.empty() && options.at != "peak")
    build.at_seconds = seconds_in(options.at);

  report::TextOptions text;
  text.screen = report::screen_of_stdout();
  text.by = by_of(options.by);
  if (options.top > 0) text.top = options.top;

  const std::vector<std::string> paths = with_folders_opened(options.traces);
  if (paths.size() > 1) return run_merged(options, paths, text);
  if (text.by == report::By::process)
    throw Failure(ExitStatus::wrong_usage, "--by process is for several traces, or a folder of them");
  build.progress = reading_progress(paths[0]);
  const report::Report made = report::build_report(paths[0], build);
  build.progress = {};
  if (options.json)
    fmt::print("{}", report::dump_json(report::report_json(made)));
  else
    for (const std::string& line : report::report_text(made, text)) fmt::print("{}\n", line);
  return ExitStatus::done;
}

}  // namespace

void add_report_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("report", "what a trace says");
  command
      ->add_option("TRACE", options->traces, "traces (*.hspy), or folders of them; several get one report over their processes")
      ->required();
  command->add_flag("--json", options->json, "print schema heapspy.report/1; with several traces, their sums and processes[]");
  command
      ->add_option("--at", options->at,
                   "peak (of RSS; the default), end, or SECONDS from the start: when arenas, RSS and findings are looked at")
      ->type_name("WHEN")
      ->check(CLI::Validator(
          [](std::string& value) {
            if (value == "peak" || value == "end" || seconds_in(value)) return std::string();
            return fmt::format("\"{}\" is not peak, end, or a number of seconds", value);
          },
          ""));
  command
      ->add_option("--by", options->by, "one table in full: thread, size or arena; of several traces process, thread or size")
      ->type_name("WHAT")
      ->check(one_of({"process", "thread", "size", "arena"}));
  command->add_option("--top", options->top, "rows per table of the text")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000'000}));
  command->footer(example("heapspy report heapspy.java.4242.*.hspy\n  heapspy report traces/ --json --at end"));
  command->callback([options, &invocation] { invocation.status = run(*options); });
}

}  // namespace heapspy::cli
