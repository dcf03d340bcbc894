// heapspy record [flags] [--] CMD…
#include <fmt/core.h>
#include <fnmatch.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <regex>

#include "analyzer/cli/command.h"
#include "analyzer/cli/message.h"
#include "analyzer/cli/reading_progress.h"
#include "analyzer/cli/recorder_library.h"
#include "analyzer/cli/trace_search.h"
#include "analyzer/collector/collector.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/process/child_process.h"
#include "analyzer/process/doctor.h"
#include "analyzer/process/elf_facts.h"
#include "analyzer/process/program_file.h"
#include "analyzer/report/build.h"
#include "analyzer/report/summary.h"
#include "analyzer/trial/settings.h"

namespace heapspy::cli {
namespace {

// "" for a value that the recorder would read, else what it accepts.
std::string judge_max(std::string& value) {
  if (trial::parse_size(value).value_or(0) >= 64 << 10) return "";
  return fmt::format("\"{}\" is not a size of at least 64KiB, such as 8GiB", value);
}
std::string judge_sample(std::string& value) {
  if (trial::parse_size(value).value_or(0) > 0) return "";
  return fmt::format("\"{}\" is not a size, such as 512KiB", value);
}
std::string judge_ring(std::string& value) {
  if (trial::parse_size(value).value_or(0) >= 1 << 20) return "";
  return fmt::format("\"{}\" is not a size of at least 1MiB, such as 64MiB", value);
}
std::string judge_depth(std::string& value) {
  static const std::regex pattern("0*[0-9]{1,4}");
  if (std::regex_match(value, pattern) && std::stoi(value) >= 1 && std::stoi(value) <= 1024) return "";
  return fmt::format("\"{}\" is not a number of frames from 1 to 1024", value);
}
std::string judge_trigger(std::string& value) {
  static const std::regex pattern("((fail|rss=[0-9]+(B|[kKmMgG]|[KMG]iB)?|cgroup=[0-9]+%|signal=[A-Z0-9+-]+)(,|$))+");
  if (std::regex_match(value, pattern)) return "";
  return fmt::format("\"{}\" is not some of rss=1GiB,cgroup=90%,signal=RTMIN+3,fail", value);
}
std::string judge_snapshot(std::string& value) {
  static const std::regex pattern("off|((peak|exit|every=[0-9]+(s|ms|m)?)(,|$))+");
  if (std::regex_match(value, pattern)) return "";
  return fmt::format("\"{}\" is not off, or some of peak,exit,every=10s", value);
}

// The settings that have a flag: --name VALUE sets HEAPSPY_NAME.
struct Setting {
  const char* flag;
  const char* variable;
  const char* what;
  std::vector<std::string> accepted;                   // empty: any value, or what `judge` says
  std::string (*judge)(std::string& value) = nullptr;  // a CLI11 validator
};
const std::vector<Setting> kSettings = {
    {"-o,--out", "HEAPSPY_OUT", "file template (%p pid, %n program, %h host, %t start time) or folder", {}},
    {"--mode",
     "HEAPSPY_MODE",
     "full: every event; ring: the newest; sample: by bytes; count: counters; off",
     {"full", "ring", "sample", "count", "off"}},
    {"--sample", "HEAPSPY_SAMPLE", "mode sample: mean bytes between samples, such as 512KiB", {}, judge_sample},
    {"--ring", "HEAPSPY_RING", "mode ring: space kept, such as 64MiB", {}, judge_ring},
    {"--trigger",
     "HEAPSPY_TRIGGER",
     "mode ring: what freezes a copy: rss=1GiB,cgroup=90%,signal=RTMIN+3,fail",
     {},
     judge_trigger},
    {"--stacks",
     "HEAPSPY_STACKS",
     "call stacks of allocations: auto (dwarf where it can be), dwarf, fp (frame pointers), libunwind, none",
     {"auto", "dwarf", "fp", "libunwind", "none"}},
    {"--depth", "HEAPSPY_DEPTH", "frames kept of a call stack, 1 to 1024", {}, judge_depth},
    {"--touch", "HEAPSPY_TOUCH", "on: learn which pages of large blocks are touched, for replay; off", {"off", "on"}},
    {"--java", "HEAPSPY_JAVA", "auto: methods of Java in call stacks; off", {"auto", "off"}},
    {"--clock", "HEAPSPY_CLOCK", "stamp: a time now and then; event: at every event, slower", {"stamp", "event"}},
    {"--max", "HEAPSPY_MAX", "space for a trace, such as 8GiB", {}, judge_max},
    {"--snapshot", "HEAPSPY_SNAPSHOT", "when residency is recorded: peak,exit,every=10s or off", {}, judge_snapshot},
    {"--children", "HEAPSPY_CHILDREN", "follow: children record too; none", {"follow", "none"}},
    {"--only", "HEAPSPY_ONLY", "glob on the program's name: others stay off", {}},
    {"--control", "HEAPSPY_CONTROL", "on: obey heapspy trim, snapshot and mark; off", {"on", "off"}},
    {"--log", "HEAPSPY_LOG", "messages of the recorder: off, error, info", {"off", "error", "info"}},
};

struct RecordOptions {
  std::vector<std::string> values = std::vector<std::string>(kSettings.size());
  std::vector<std::string> program;  // for the help only; see Invocation::program
  bool no_collector = false;
};

std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// What the recorder will see: the flag, else the environment.
std::string value_of(const RecordOptions& options, std::string_view variable) {
  for (std::size_t i = 0; i < kSettings.size(); i++)
    if (variable == kSettings[i].variable && !options.values[i].empty()) return options.values[i];
  return environment_value(std::string(variable).c_str());
}

// ---- signals: the child gets what was sent to us. What the terminal sends, it sends to the child as well.

volatile pid_t recorded_child = 0;

void pass_on(int signal, siginfo_t* info, void*) {
  const int saved = errno;
  if (info->si_code <= 0 && recorded_child > 0) ::kill(recorded_child, signal);
  errno = saved;
}

void forward_signals() {
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM}) {
    struct sigaction present {};
    ::sigaction(signal, nullptr, &present);
    if (present.sa_handler == SIG_IGN) continue;  // nohup: ignored here and, inherited, in the child
    struct sigaction action {};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

std::uint64_t realtime_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec);
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The one reason that explains best why there is no trace.
std::string why_no_trace(const RecordOptions& options, const process::ProgramFile& program, const std::string& out) {
  if (value_of(options, "HEAPSPY_MODE") == "off") return "recording was off (HEAPSPY_MODE=off)";
  if (const std::string_view why = process::why_not_recorded(program.kind); !why.empty())
    return fmt::format("{} {}", program.runs, why);
  if (const std::string why = process::why_not_seen(program.runs); !why.empty()) return fmt::format("{} {}", program.runs, why);
  const std::string folder = out.substr(0, out.rfind('/'));
  if (folder.find('%') == std::string::npos && ::access(folder.empty() ? "/" : folder.c_str(), W_OK | X_OK) != 0)
    return fmt::format("{} cannot be written to; choose another folder with --out", folder);
  const std::string only = value_of(options, "HEAPSPY_ONLY");
  if (!only.empty() && ::fnmatch(only.c_str(), base_name(program.path).c_str(), 0) != 0)
    return fmt::format("HEAPSPY_ONLY={} does not match {}", only, base_name(program.path));
  return "the recorder did not start in it; --log info says more";
}

// In a process of its own: the program's exit status goes through whatever becomes of a large or damaged trace.
void print_summary(const std::string& path) {
  std::fflush(nullptr);
  const pid_t reader = ::fork();
  if (reader == 0) {
    try {
      report::BuildOptions options;
      options.progress = reading_progress(path);
      const report::Report report = report::build_report(path, options);
      options.progress = {};  // erases its line
      for (const std::string& line : report::five_lines(report)) fmt::print(stderr, "  {}\n", line);
    } catch (const std::exception& error) {
      say(error.what());
    }
    std::fflush(nullptr);
    ::_exit(0);
  }
  int status = 0;
  while (reader > 0 && ::waitpid(reader, &status, 0) < 0 && errno == EINTR) {
  }
  if (reader < 0 || !WIFEXITED(status)) say(fmt::format("the trace could not be summed up; try heapspy report {}", path));
}

void print_result(const RecordOptions& options, const process::ProgramFile& program, const std::string& out, pid_t child,
                  std::uint64_t since_ns) {
  const std::vector<FoundTrace> all = find_traces(out, 0, since_ns);
  std::vector<FoundTrace> own;
  std::copy_if(all.begin(), all.end(), std::back_inserter(own),
               [child](const FoundTrace& trace) { return trace.pid == static_cast<std::uint32_t>(child); });
  if (all.empty()) {
    say("there is no trace: " + why_no_trace(options, program, out));
    return;
  }
  // A program that replaced itself (a shell's exec) left several; the last is the one that was meant.
  const FoundTrace& main_trace = own.empty() ? all.back() : own.back();
  say(fmt::format("trace {} ({})", main_trace.path, findings::bytes_text(main_trace.size_bytes)));
  if (all.size() > 1)
    say(fmt::format("and {} more of its children and predecessors in {}", all.size() - 1,
                    main_trace.path.substr(0, main_trace.path.rfind('/') + 1)));
  if (const std::string why = process::why_not_seen(program.runs); !why.empty())
    say(fmt::format("the trace lacks its allocations: {} {}", program.runs, why));
  print_summary(main_trace.path);
}

ExitStatus status_of(int wait_status) {
  return static_cast<ExitStatus>(WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
}

ExitStatus record(const RecordOptions& options, const std::vector<std::string>& command) {
  if (command.empty())
    throw Failure(ExitStatus::wrong_usage, "say which program to record, as in: heapspy record java -jar app.jar");
  const std::string library = find_recorder_library();
  char* here = ::get_current_dir_name();
  const std::string folder = here != nullptr ? here : "";
  std::free(here);
  const std::string wanted = value_of(options, "HEAPSPY_OUT");
  const std::string out = absolute_template(wanted.empty() ? kDefaultTemplate : wanted, folder);

  process::ChildPlan plan{command, {}, process::ChildOutput::inherit};
  for (std::size_t i = 0; i < kSettings.size(); i++)
    if (!options.values[i].empty()) plan.environment.emplace_back(kSettings[i].variable, options.values[i]);
  std::erase_if(plan.environment, [](const auto& change) { return change.first == "HEAPSPY_OUT"; });
  plan.environment.emplace_back("HEAPSPY_OUT", out);
  const process::ProgramFile program = process::examine_program(command[0]);
  // AddressSanitizer's runtime ends the program where another library is loaded before it.
  if (!process::read_elf_facts(program.runs).has_asan)
    plan.environment.emplace_back("LD_PRELOAD", preload_first(library, environment_value("LD_PRELOAD")));

  const std::uint64_t since_ns = realtime_ns();
  // Before the program starts: from then on its traces are seen to appear.
  std::unique_ptr<collector::Collector> collector;
  if (!options.no_collector) {
    collector = std::make_unique<collector::Collector>(out.substr(0, out.rfind('/')), glob_of(out, 0));
    plan.environment.emplace_back("HEAPSPY_COLLECTOR", collector->name());
  }
  forward_signals();
  pid_t child = 0;
  try {
    child = process::start_child(plan, [](pid_t pid) { recorded_child = pid; });
  } catch (const process::StartError& error) {
    say(error.what());
    return static_cast<ExitStatus>(error.error == ENOENT ? 127 : 126);
  }
  if (collector) collector->start();
  int wait_status = 0;
  while (::waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
  }
  recorded_child = 0;
  if (collector) {
    collector->finish();
    for (const std::string& problem : collector->problems()) say(problem);
  }
  print_result(options, program, out, child, since_ns);
  return status_of(wait_status);
}

}  // namespace

void add_record_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<RecordOptions>();
  CLI::App* command = app.add_subcommand("record", "runs a program with the recorder, then says where the trace is");
  command->add_option("CMD", options->program, "the program and its arguments; its exit status is passed through");
  for (std::size_t i = 0; i < kSettings.size(); i++) {
    CLI::Option* option = command->add_option(kSettings[i].flag, options->values[i],
                                              fmt::format("{} ({})", kSettings[i].what, kSettings[i].variable));
    option->option_text(" ");
    if (!kSettings[i].accepted.empty()) option->check(one_of(kSettings[i].accepted));
    if (kSettings[i].judge != nullptr) option->check(CLI::Validator(kSettings[i].judge, ""));
  }
  command->add_flag("--no-collector", options->no_collector, "the program writes its traces by itself; they are not packed");
  command->footer(example("heapspy record --out /var/tmp java -jar app.jar"));
  command->callback([options, &invocation] { invocation.status = record(*options, invocation.program); });
}

}  // namespace heapspy::cli
