// heapspy diff BEFORE AFTER [--json] [--fail-if EXPR]
#include <fmt/core.h>

#include <cstdio>
#include <memory>

#include "analyzer/cli/command.h"
#include "analyzer/cli/message.h"
#include "analyzer/cli/reading_progress.h"
#include "analyzer/cli/symbol_options.h"
#include "analyzer/report/build.h"
#include "analyzer/report/condition.h"
#include "analyzer/report/diff_json.h"
#include "analyzer/report/diff_text.h"
#include "analyzer/report/report_json.h"

namespace heapspy::cli {
namespace {

struct DiffOptions {
  std::string before, after;
  bool json = false;
  std::vector<std::string> fail_if;
  SymbolOptions symbols;
};

report::Report read(const std::string& path, const symbols::SearchPaths& search) {
  report::BuildOptions build;
  build.progress = reading_progress(path);
  build.sites.search = search;
  build.sites.all = true;  // one that is left out of one side would seem to have vanished
  return report::build_report(path, build);
}

ExitStatus run(const DiffOptions& options) {
  std::vector<report::Condition> conditions;
  try {
    for (const std::string& text : options.fail_if) conditions.push_back(report::parse_condition(text));
    const symbols::SearchPaths search = search_paths(options.symbols);
    const report::Diff diff = report::make_diff(read(options.before, search), read(options.after, search));
    // Decided before anything is printed, so that a condition that cannot be is the only thing that is said.
    std::vector<std::string> held;
    for (const report::Condition& condition : conditions)
      if (holds(condition, diff)) held.push_back(explain(condition, diff));
    if (options.json)
      fmt::print("{}", report::dump_json(report::diff_json(diff)));
    else
      for (const std::string& line : report::diff_text(diff, report::screen_of_stdout())) fmt::print("{}\n", line);
    if (held.empty()) return ExitStatus::done;
    std::fflush(stdout);
    for (const std::string& each : held) say("--fail-if held: " + each);
    return ExitStatus::fail_if_held;
  } catch (const report::BadCondition& bad) {
    throw Failure(ExitStatus::wrong_usage, bad.what());
  } catch (const report::UnknownFigure& unknown) {
    throw Failure(ExitStatus::unreadable, unknown.what());
  }
}

}  // namespace

void add_diff_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand("diff", "the figures of two traces side by side");
  command->add_option("BEFORE", options->before, "trace")->required();
  command->add_option("AFTER", options->after, "trace")->required();
  command->add_flag("--json", options->json, "print schema heapspy.diff/1");
  command->add_option("--fail-if", options->fail_if, "exit with status 1 if this holds; may be given several times")
      ->type_name("EXPR")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  add_symbol_options(command, options->symbols);
  command->footer(
      "EXPR is FIGURE OP VALUE. FIGURE: peak_rss, end_rss, or names of the JSON joined by dots (totals.live_bytes,\n"
      "arenas.secondary.count, rss.parts.thread stacks). OP: > >= < <=. VALUE: 1GiB (the figure after), 1.1x (after, in\n"
      "times before), +64MiB or -64MiB (the change), +10% (the change in percent of before).\n" +
      example("heapspy diff default.hspy arena_max_1.hspy --fail-if 'peak_rss > 1.1x' --fail-if 'totals.live_bytes > +64MiB'"));
  command->callback([options, &invocation] { invocation.status = run(*options); });
}

}  // namespace heapspy::cli
