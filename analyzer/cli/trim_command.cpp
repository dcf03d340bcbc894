// heapspy trim PID [--json] [--method METHOD] [--still] [--watch SECONDS]
#include <fmt/core.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "analyzer/cli/command.h"
#include "analyzer/cli/recorder_request.h"
#include "analyzer/cli/trim_outcome.h"

namespace heapspy::cli {
namespace {

TrimOutcome trim_by_whom_it_may(const process::LiveProcess& target, const TrimOptions& options) {
  if (options.method == "auto" || options.method == "recorder") try {
      process::RecorderLink link(target);
      return trim_by_recorder(target, link, options);
    } catch (const process::NotRecorded&) {
      if (options.method == "recorder") throw;
    }
  return trim_from_outside(target, options);
}

void watch_faults(const process::LiveProcess& target, const TrimOptions& options, TrimOutcome& outcome) {
  const auto before = page_faults(target);
  if (options.watch_s <= 0 || !before) return;
  std::this_thread::sleep_for(std::chrono::duration<double>(options.watch_s));
  if (const auto after = page_faults(target))
    outcome.faults_after = PageFaults{after->minor - before->minor, after->major - before->major};
}

ExitStatus trim(const TrimOptions& options) {
  const process::LiveProcess target(options.pid);
  expect_alive(target);
  TrimOutcome outcome = trim_by_whom_it_may(target, options);
  watch_faults(target, options, outcome);
  (options.json ? print_trim_json : print_trim_text)(target, outcome, options);
  return ExitStatus::done;
}

}  // namespace

void add_trim_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<TrimOptions>();
  CLI::App* command =
      app.add_subcommand("trim", "runs malloc_trim in a process, safely: what was predicted and what came back");
  command->add_option("PID", options->pid, "the process")->required()->check(process_id());
  command->add_flag("--json", options->json, "print schema heapspy.trim/1");
  command
      ->add_option(
          "--method", options->method,
          "recorder: by the recorder in it; jcmd: by the JVM itself; ptrace: by one of its threads, borrowed at a system "
          "call that malloc never makes; auto: the first of these that there is")
      ->check(one_of({"auto", "recorder", "jcmd", "ptrace"}))
      ->option_text("METHOD [auto]");
  command->add_flag("--with-seccomp", options->with_seccomp,
                    "ptrace: its seccomp filter is known to allow madvise, brk and futex");
  command->add_flag("--still", options->still,
                    "ptrace: all other threads stand still from the prediction on until it is done, so that it is exact");
  command->add_option("--timeout", options->timeout_s, "how long to wait for the process's answer, or a safe moment")
      ->check(CLI::Range(0.001, 86400.0))
      ->option_text("SECONDS [10]");
  command->add_option("--watch", options->watch_s, "how long to count page faults afterwards")
      ->check(CLI::Range(0.0, 86400.0))
      ->option_text("SECONDS [2]");
  command->footer(example("heapspy trim 4242"));
  command->callback([options, &invocation] {
    if (options->still && options->method == "auto") options->method = "ptrace";
    if (options->still && options->method != "ptrace")
      throw Failure(ExitStatus::wrong_usage,
                    fmt::format("--still is for --method ptrace; {} needs other threads of the process", options->method));
    invocation.status = trim(*options);
  });
}

}  // namespace heapspy::cli
