// heapspy export TRACE --format FORMAT [--value VALUE] [--at WHEN] [-o FILE]
#include <fmt/core.h>
#include <unistd.h>

#include <memory>

#include "analyzer/cli/command.h"
#include "analyzer/cli/message.h"
#include "analyzer/cli/output_file.h"
#include "analyzer/cli/reading_progress.h"
#include "analyzer/cli/symbol_options.h"
#include "analyzer/exports/exports.h"
#include "analyzer/report/build.h"
#include "analyzer/report/printable.h"

namespace heapspy::cli {
namespace {

struct ExportOptions {
  std::string trace, format, out, at, value;
  SymbolOptions symbols;
};

exports::Value value_named(const std::string& word) {
  for (const exports::Value value : exports::kValues)
    if (word == exports::name_of(value)) return value;
  return exports::Value::inuse_space;
}

std::string exported(const report::Report& report, const ExportOptions& options) {
  if (options.format == "folded") return exports::folded(report, value_named(options.value));
  if (options.format == "pprof") return exports::pprof(report);
  if (options.format == "dhat") return exports::dhat(report);
  if (options.format == "perfetto") return exports::perfetto(report);
  return exports::csv(report);
}

ExitStatus run(const ExportOptions& options) {
  const bool binary = options.format == "pprof" || options.format == "perfetto";
  if (binary && (options.out.empty() || options.out == "-") && ::isatty(STDOUT_FILENO))
    throw Failure(ExitStatus::wrong_usage, fmt::format("{} is not text: name a file with -o", options.format));
  if (!options.value.empty() && options.format != "folded")
    throw Failure(ExitStatus::wrong_usage, fmt::format("--value is for folded; {} holds all values", options.format));
  report::BuildOptions build;
  if (options.at == "end") build.at = report::BuildOptions::At::end;
  build.sites.all = true;
  build.sites.search = search_paths(options.symbols);
  build.progress = reading_progress(options.trace);
  const report::Report made = report::build_report(options.trace, build);
  build.progress = {};
  if (made.trace.stacks == "none")
    throw Failure(ExitStatus::unreadable,
                  fmt::format("{} holds no call stacks; record without {}", report::printable(options.trace),
                              made.trace.mode == "count" ? "HEAPSPY_MODE=count" : "HEAPSPY_STACKS=none"));
  const std::string data = exported(made, options);
  write_output(options.out, data);
  if (options.out.empty() || options.out == "-") return ExitStatus::done;
  say(fmt::format("{}: {} call stacks, {} bytes", report::printable(options.out), made.sites.size(), data.size()));
  return ExitStatus::done;
}

}  // namespace

void add_export_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand("export", "call stacks and memory over time for the viewers people already use");
  command->add_option("TRACE", options->trace, "a trace with call stacks")->required();
  command
      ->add_option("--format", options->format,
                   "folded (flame graphs, speedscope), pprof (go tool pprof), dhat (Valgrind's dh_view.html), perfetto "
                   "(ui.perfetto.dev), csv")
      ->required()
      ->type_name("FORMAT")
      ->check(one_of({"folded", "pprof", "dhat", "perfetto", "csv"}));
  command
      ->add_option("--value", options->value,
                   "of folded: inuse_space (the default), inuse_objects, alloc_space, alloc_objects or pinned_space")
      ->type_name("VALUE")
      ->check(one_of({"inuse_space", "inuse_objects", "alloc_space", "alloc_objects", "pinned_space"}));
  command->add_option("--at", options->at, "peak (of RSS; the default) or end: when inuse and pinned are looked at")
      ->type_name("WHEN")
      ->check(one_of({"peak", "end"}));
  command->add_option("-o,--out", options->out, "write here and not to the standard output")->type_name("FILE");
  add_symbol_options(command, options->symbols);
  command->footer(example("heapspy export heapspy.java.4242.*.hspy --format pprof -o heap.pb.gz"));
  command->callback([options, &invocation] { invocation.status = run(*options); });
}

}  // namespace heapspy::cli
