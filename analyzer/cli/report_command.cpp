// heapspy report TRACE… [--json] [--ledger] [--at peak|end|SECONDS] [--by process|thread|site|size|arena|module] [--top N]
// [--tree down|up]
//   [--thread NAME] [--site REGEX] [--module NAME] [--from S] [--to S] [--size RANGE] [--sysroot DIR] …
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <regex>
#include <system_error>
#include <utility>

#include "analyzer/cli/command.h"
#include "analyzer/cli/message.h"
#include "analyzer/cli/output_file.h"
#include "analyzer/cli/prove.h"
#include "analyzer/cli/reading_progress.h"
#include "analyzer/cli/symbol_options.h"
#include "analyzer/report/build.h"
#include "analyzer/report/merged_build.h"
#include "analyzer/report/merged_json.h"
#include "analyzer/report/merged_text.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/report_html.h"
#include "analyzer/report/report_json.h"
#include "analyzer/report/report_text.h"
#include "analyzer/trial/settings.h"

namespace heapspy::cli {
namespace {

constexpr std::size_t kSitesInJson = 1000, kSitesInText = 10;  // of each figure

struct ReportOptions {
  std::vector<std::string> traces;
  bool json = false, ledger = false, prove = false;
  std::string html, at, by;
  std::size_t top = 0;  // 0: not given
  std::string tree, site, size, suppressions;
  SymbolOptions symbols;
  report::SiteOptions sites;
  report::SiteScope scope;
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
  if (word == "site") return report::By::site;
  if (word == "module") return report::By::module;
  return word == "arena" ? report::By::arena : report::By::everything;
}

// What the report calls the traces: the folder, or all of them.
std::string name_of(const std::vector<std::string>& given) {
  std::string name;
  for (const std::string& each : given) name += (name.empty() ? "" : " ") + each;
  return name;
}

// "64KiB", "1KiB..64KiB", "1MiB..", "..32": both ends are in it.
bool read_size_range(const std::string& text, report::SiteScope& to) {
  const std::size_t dots = text.find("..");
  const std::string from = text.substr(0, dots), until = dots == std::string::npos ? from : text.substr(dots + 2);
  const auto least = trial::parse_size(from), most = trial::parse_size(until);
  if ((from.empty() && until.empty()) || (!from.empty() && !least) || (!until.empty() && !most)) return false;
  if (least) to.least_bytes = *least;
  if (most) to.most_bytes = *most;
  return to.least_bytes <= to.most_bytes;
}

report::SiteOptions site_options(const ReportOptions& options, const report::TextOptions& text) {
  report::SiteOptions sites = options.sites;
  sites.search = search_paths(options.symbols);
  if (!options.site.empty()) {
    try {
      sites.pattern.emplace(options.site, std::regex::optimize);
    } catch (const std::regex_error&) {
      throw Failure(
          ExitStatus::wrong_usage,
          fmt::format("--site: \"{}\" is no regular expression (as in grep -E, for function and file names)", options.site));
    }
  }
  if (!options.suppressions.empty()) {
    try {
      sites.suppressions = report::Suppressions::read(options.suppressions);
    } catch (const report::BadSuppressions& bad) {
      throw Failure(ExitStatus::wrong_usage, fmt::format("--suppressions: {}", bad.what()));
    }
  }
  sites.all = text.tree || text.by == report::By::module || !options.html.empty();
  sites.most = options.top                   ? options.top
               : options.json                ? kSitesInJson
               : text.by == report::By::site ? kSitesInText
                                             : sites.most;
  return sites;
}

void write_page(const ReportOptions& options, const std::string& page) {
  write_output(options.html, page);
  if (options.html != "-") say(fmt::format("{}: {} bytes", report::printable(options.html), page.size()));
}

template <typename Build>
auto with_thread_known(Build build) {
  try {
    return build();
  } catch (const report::NoSuchThread& none) {
    throw Failure(ExitStatus::wrong_usage, fmt::format("--thread: {}", none.what()));
  }
}

ExitStatus run_merged(const ReportOptions& options, const std::vector<std::string>& paths, const report::TextOptions& text) {
  const auto refuse = [](const char* what) {
    throw Failure(ExitStatus::wrong_usage,
                  fmt::format("{}; name one trace for that, heapspy report … --by process lists them", what));
  };
  if (text.ledger) refuse("--ledger is about one process");
  if (text.by == report::By::arena) refuse("--by arena: arenas are of one process");
  if (options.prove) refuse("--prove replays one process");
  if (!options.at.empty() && options.at != "end" && options.at != "peak") refuse("--at SECONDS is about one process's time");
  report::MergeOptions merge;
  merge.at_end = options.at == "end";
  merge.sites = site_options(options, text);
  merge.scope = options.scope;
  const std::string name = name_of(options.traces);
  merge.progress = reading_progress(name);
  report::MergedReport merged = with_thread_known([&] { return report::build_merged(paths, name, merge); });
  merge.progress = {};
  if (!options.html.empty()) write_page(options, report::merged_html(merged));
  if (options.json) {
    nlohmann::ordered_json tree;
    if (text.tree) tree = report::tree_json(merged.stacks.sites, *text.tree);
    if (merge.sites.all) report::keep_largest_sites(merged.stacks, merge.sites.most);
    nlohmann::ordered_json json = report::merged_json(merged);
    if (text.tree) json["tree"] = std::move(tree);
    fmt::print("{}", report::dump_json(json));
  }
  if (options.json || !options.html.empty()) return ExitStatus::done;
  for (const std::string& line : report::merged_text(merged, text)) fmt::print("{}\n", line);
  return ExitStatus::done;
}

ExitStatus run(const ReportOptions& options) {
  if (!options.html.empty() && (!options.by.empty() || (!options.tree.empty() && !options.json)))
    throw Failure(ExitStatus::wrong_usage, "--html holds every table and both trees: leave --by and --tree out");
  if (options.html == "-" && options.json)
    throw Failure(ExitStatus::wrong_usage, "--html - and --json both write to the standard output: name a file for the page");
  if (options.scope.from_s && options.scope.to_s && *options.scope.from_s > *options.scope.to_s)
    throw Failure(ExitStatus::wrong_usage, fmt::format("--from {} --to {}: no moment lies between; --from is the earlier one",
                                                       *options.scope.from_s, *options.scope.to_s));
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
  text.ledger = options.ledger;
  if (!options.tree.empty()) text.tree = options.tree == "up" ? report::TreeOrder::up : report::TreeOrder::down;

  const std::vector<std::string> paths = with_folders_opened(options.traces);
  if (paths.size() > 1) return run_merged(options, paths, text);
  if (text.by == report::By::process)
    throw Failure(ExitStatus::wrong_usage, "--by process is for several traces, or a folder of them");
  build.sites = site_options(options, text);
  build.scope = options.scope;
  build.progress = reading_progress(paths[0]);
  report::Report made = with_thread_known([&] { return report::build_report(paths[0], build); });
  build.progress = {};
  const std::optional<Proof> proof = options.prove ? std::optional(prove(paths[0], made.findings)) : std::nullopt;
  std::vector<std::string> trials = proof ? proof_text(*proof) : std::vector<std::string>();
  if (!options.html.empty()) {
    if (!trials.empty()) trials.erase(trials.begin());  // the empty line before them
    write_page(options, report::report_html(made, trials));
  }
  if (options.json) {
    nlohmann::ordered_json tree;
    if (text.tree) tree = report::tree_json(made.sites, *text.tree);
    if (build.sites.all) report::keep_largest_sites(made, build.sites.most);
    const std::vector<report::SiteReport> sites = std::exchange(made.sites, {});
    nlohmann::ordered_json json = report::report_json(made);
    if (text.tree) json["tree"] = std::move(tree);
    if (proof) json["proofs"] = proof_json(*proof);
    report::write_json(json, sites, [](std::string_view part) { fmt::print("{}", part); });
    return ExitStatus::done;
  }
  if (!options.html.empty()) return ExitStatus::done;
  for (const std::string& line : report::report_text(made, text)) fmt::print("{}\n", line);
  for (const std::string& line : trials) fmt::print("{}\n", line);
  return ExitStatus::done;
}

}  // namespace

void add_report_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = app.add_subcommand("report", "what a trace says");
  command
      ->add_option("TRACE", options->traces, "traces (*.hspy), or folders of them; several get one report over their processes")
      ->required();
  command->add_flag("--json", options->json, "print schema heapspy.report/1; with several traces, their sums and processes[]");
  command->add_option("--html", options->html, "write a page of HTML and not text; with --json both; - is the standard output")
      ->type_name("FILE");
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
  command->add_flag(
      "--ledger", options->ledger,
      "where RSS is, in full: libraries by name, swap, huge pages, the cgroup, who pins, and all of it over time");
  command
      ->add_option("--by", options->by,
                   "one table in full: thread, site, size, arena or module; of several traces not arena, but process")
      ->type_name("WHAT")
      ->check(one_of({"process", "thread", "site", "size", "arena", "module"}));
  command->add_flag("--prove", options->prove,
                    "replay the settings that the findings suggest (at most three): what they save and cost, measured");
  command->add_option("--top", options->top, "rows per table of the text")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000'000}));
  command->add_option("--tree", options->tree, "the call tree: down from main(), or up from who allocates")
      ->type_name("ORDER")
      ->check(one_of({"down", "up"}));
  command
      ->add_option("--thread", options->scope.thread, "sites: only blocks of the thread with this name (* for anything) or tid")
      ->type_name("NAME");
  command->add_option("--site", options->site, "sites: only stacks with a function or file that this regular expression finds")
      ->type_name("REGEX");
  command
      ->add_option("--module", options->sites.module,
                   "sites: only stacks through a library or program whose file name has this in it")
      ->type_name("NAME");
  const CLI::Validator moment(
      [](std::string& value) {
        return seconds_in(value) ? std::string() : fmt::format("\"{}\" is no number of seconds", value);
      },
      "");
  command->add_option("--from", options->scope.from_s, "sites: only blocks allocated since then")
      ->type_name("SECONDS")
      ->check(moment);
  command->add_option("--to", options->scope.to_s, "sites: only blocks allocated until then")
      ->type_name("SECONDS")
      ->check(moment);
  command->add_option("--size", options->size, "sites: only blocks of this size, such as 1KiB..64KiB, 1MiB.., ..32, 4096")
      ->type_name("RANGE")
      ->check(CLI::Validator(
          [options](std::string& value) {
            if (read_size_range(value, options->scope)) return std::string();
            return fmt::format("\"{}\" is no range of sizes; accepted are FROM..TO, FROM.., ..TO, SIZE", value);
          },
          ""));
  command
      ->add_option("--suppressions", options->suppressions, "known leaks: a file with lines leak:PATTERN, as LeakSanitizer's")
      ->type_name("FILE");
  add_symbol_options(command, options->symbols);
  command->footer(example(
      "heapspy report heapspy.java.4242.*.hspy\n  heapspy report traces/ --json --at end\n  heapspy report t.hspy --by "
      "site\n  heapspy report t.hspy --prove\n  heapspy report t.hspy --tree up --module libz --from 10\n  heapspy report "
      "t.hspy --ledger --at end"));
  command->callback([options, &invocation] { invocation.status = run(*options); });
}

}  // namespace heapspy::cli
