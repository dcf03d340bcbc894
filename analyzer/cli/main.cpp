// The program `heapspy`: finds the command, runs it, turns what went wrong into one line and an exit status.
#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "analyzer/cli/command.h"
#include "analyzer/cli/command_line.h"
#include "analyzer/cli/message.h"
#include "analyzer/process/live_process.h"
#include "analyzer/trace/reader.h"

namespace heapspy::cli {
namespace {

// The commands, in the order of --help. Each is declared in command.h and lives in NAME_command.cpp.
using AddCommand = void (*)(CLI::App&, Invocation&);
const std::vector<AddCommand> kCommands = {
    add_record_command, add_report_command,   add_diff_command,    add_compare_command, add_replay_command,
    add_trim_command,   add_snapshot_command, add_mark_command,    add_maps_command,    add_pack_command,
    add_doctor_command, add_export_command,   add_inspect_command, add_top_command,
};

ExitStatus failed(ExitStatus status, std::string_view line) {
  say(line);
  return status;
}

std::string not_written(int error) {
  return fmt::format("the output could not be written: {}; check where it goes, or name another file with > FILE",
                     std::strerror(error));
}

std::string command_names(const CLI::App& app) {
  std::string names;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    names += (names.empty() ? "" : ", ") + each->get_name();
  return names;
}

ExitStatus run(const std::vector<std::string>& arguments) {
  Invocation invocation;
  CLI::App app("Says where a Linux process's memory is, who holds it and what would give it back", "heapspy");
  app.set_version_flag("--version", "heapspy " HEAPSPY_VERSION);
  app.footer("Each command has its own --help with an example. Start with:\n  heapspy record java -jar app.jar");
  for (const auto add : kCommands) add(app, invocation);

  CommandLine line = split_command_line(app, arguments);
  invocation.program = std::move(line.program);
  std::vector<std::string> own = std::move(line.own);
  if (own.empty())
    return failed(ExitStatus::wrong_usage,
                  fmt::format("say what to do: one of {}; heapspy --help explains", command_names(app)));
  if (own[0][0] != '-' && app.get_subcommands([&](const CLI::App* each) { return each->check_name(own[0]); }).empty())
    return failed(ExitStatus::wrong_usage, fmt::format("there is no command \"{}\"; there are {}", own[0], command_names(app)));

  const std::string help = own[0][0] == '-' ? "heapspy --help" : "heapspy " + own[0] + " --help";
  try {
    app.parse(std::vector<std::string>(own.rbegin(), own.rend()));  // CLI11 wants the last argument first
    return invocation.status;
  } catch (const CLI::Success& wanted) {  // --help, --version
    app.exit(wanted);
    return ExitStatus::done;
  } catch (const CLI::ParseError& error) {
    return failed(ExitStatus::wrong_usage, fmt::format("{}; {} explains", error.what(), help));
  } catch (const Failure& failure) {
    return failed(failure.status, failure.what());
  } catch (const trace::Unreadable& unreadable) {
    return failed(ExitStatus::unreadable, unreadable.what());
  } catch (const process::TargetError& error) {
    return failed(ExitStatus::target_refused, error.what());
  } catch (const std::bad_alloc&) {
    return failed(ExitStatus::unreadable, "out of memory");
  } catch (const std::system_error& error) {
    // As fmt says it of stdout, the only file that it writes here.
    if (!std::string_view(error.what()).starts_with("cannot write to file"))
      return failed(ExitStatus::unreadable, error.what());
    if (error.code().value() == EPIPE) return ExitStatus::unreadable;
    return failed(ExitStatus::unreadable, not_written(error.code().value()));
  } catch (const std::exception& error) {
    return failed(ExitStatus::unreadable, error.what());
  }
}

}  // namespace
}  // namespace heapspy::cli

int main(int argc, char** argv) {
  using heapspy::cli::ExitStatus;
  ExitStatus status = heapspy::cli::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
  if (std::fflush(stdout) != 0 && errno != EPIPE && status == ExitStatus::done) {
    heapspy::cli::say(heapspy::cli::not_written(errno));
    status = ExitStatus::unreadable;
  }
  return static_cast<int>(status);
}
