// heapspy mark PID TEXT
#include <fmt/core.h>

#include <memory>

#include "analyzer/cli/command.h"
#include "analyzer/cli/recorder_request.h"

namespace heapspy::cli {
namespace {

struct MarkOptions {
  pid_t pid = 0;
  std::string text;
  double timeout_s = 10;
};

std::string judge_text(std::string& text) {
  if (text.empty()) return "a mark needs a text";
  if (text.size() <= process::kLongestMark) return "";
  return fmt::format("its {} bytes are too many; a mark holds at most {}", text.size(), process::kLongestMark);
}

ExitStatus mark(const MarkOptions& options) {
  const process::LiveProcess target(options.pid);
  expect_alive(target);
  process::RecorderLink link(target, format::Request::mark);
  const process::Answer answer = ask_recorder(
      target, link,
      {.request = format::Request::mark, .action = "a mark", .text = options.text, .timeout_s = options.timeout_s});
  if (answer.result != format::RequestResult::done)
    throw Failure(
        ExitStatus::target_refused,
        fmt::format("the recorder of process {} could not write the mark into {} (disk full, or HEAPSPY_MAX reached?)",
                    options.pid, link.trace_path()));
  return ExitStatus::done;
}

}  // namespace

void add_mark_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<MarkOptions>();
  CLI::App* command = app.add_subcommand("mark", "a named moment in the trace of a running process");
  command->add_option("PID", options->pid, "the process")->required()->check(process_id());
  command->add_option("TEXT", options->text, "what report will show at that time")
      ->required()
      ->check(CLI::Validator(judge_text, ""));
  command->add_option("--timeout", options->timeout_s, "how long to wait for the process's answer")
      ->check(CLI::Range(0.001, 86400.0))
      ->option_text("SECONDS [10]");
  command->footer(example("heapspy mark 4242 \"cache filled\""));
  command->callback([options, &invocation] { invocation.status = mark(*options); });
}

}  // namespace heapspy::cli
