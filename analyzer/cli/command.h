// How a command meets the program: one file per command, each with one function that main.cpp lists once.
//
//   void add_report_command(CLI::App& app, Invocation& invocation) {
//     auto options = std::make_shared<ReportOptions>();
//     CLI::App* command = app.add_subcommand("report", "what a trace says");
//     command->add_flag("--json", options->json, "print schema heapspy.report/1");
//     command->footer(example("heapspy report heapspy.java.4242.*.hspy"));
//     command->callback([options, &invocation] { invocation.status = run(*options); });
//   }
//
// A command that fails throws Failure; trace::Unreadable counts as Failure with ExitStatus::unreadable. main prints it
// as one line on stderr. Results go to stdout, everything else to stderr.
#pragma once
#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace heapspy::cli {

enum class ExitStatus : int {
  done = 0,
  fail_if_held = 1,
  wrong_usage = 2,
  unreadable = 3,      // an input is missing, damaged beyond reading or of a newer version
  target_refused = 4,  // the target process refused or went away
};

// what() is one line: what, where, what to do; without the leading "heapspy: ".
struct Failure : std::runtime_error {
  Failure(ExitStatus with, const std::string& line) : std::runtime_error(line), status(with) {}
  ExitStatus status;
};

// The target refused or went away.
[[noreturn]] inline void refuse(const std::string& line) { throw Failure(ExitStatus::target_refused, line); }

// One run of the program. Owned by main, outlives every callback.
struct Invocation {
  // What main returns. `record` puts the recorded program's own status here.
  ExitStatus status = ExitStatus::done;
  // The program to run and its arguments, for commands with a positional option named CMD: everything from the first
  // argument that is not a flag, or after `--`. main takes it off before CLI11 sees it, because CLI11 would read
  // arguments like "[a,b]" as lists and "-h" as its own.
  std::vector<std::string> program;
};

// A footer for --help.
inline std::string example(std::string_view line) { return "Example:\n  " + std::string(line); }

// For Option::check: one of some words, and a process id. The messages name the value and what is accepted.
CLI::Validator one_of(const std::vector<std::string>& words);
CLI::Validator process_id();

void add_record_command(CLI::App&, Invocation&);
void add_report_command(CLI::App&, Invocation&);
void add_diff_command(CLI::App&, Invocation&);
void add_compare_command(CLI::App&, Invocation&);
void add_replay_command(CLI::App&, Invocation&);
void add_top_command(CLI::App&, Invocation&);
void add_trim_command(CLI::App&, Invocation&);
void add_snapshot_command(CLI::App&, Invocation&);
void add_mark_command(CLI::App&, Invocation&);
void add_inspect_command(CLI::App&, Invocation&);
void add_maps_command(CLI::App&, Invocation&);
void add_doctor_command(CLI::App&, Invocation&);
void add_pack_command(CLI::App&, Invocation&);
void add_export_command(CLI::App&, Invocation&);

}  // namespace heapspy::cli
