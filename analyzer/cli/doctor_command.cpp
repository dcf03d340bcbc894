// heapspy doctor PID | heapspy doctor [--] CMD…
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/cli/command.h"
#include "analyzer/cli/recorder_library.h"
#include "analyzer/process/doctor.h"
#include "analyzer/report/printable.h"

namespace heapspy::cli {
namespace {

using process::Diagnosis;
using process::Observation;

struct DoctorOptions {
  pid_t pid = 0;
  bool json = false;
  std::vector<std::string> program;  // for the help only; see Invocation::program
};

// stdout and stderr of a program that is run with exactly this environment; nullopt: it could not be started.
struct Said {
  int status = 0;
  std::string out, err;
};
std::optional<Said> run(std::vector<std::string> command, std::vector<std::string> environment) {
  FILE* out = std::tmpfile();
  FILE* err = std::tmpfile();
  std::optional<Said> said;
  if (out != nullptr && err != nullptr) {
    const auto pointers = [](std::vector<std::string>& list) {
      std::vector<char*> result;
      for (std::string& each : list) result.push_back(each.data());
      result.push_back(nullptr);
      return result;
    };
    const std::vector<char*> arguments = pointers(command), variables = pointers(environment);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::fileno(out), 1);
      ::dup2(::fileno(err), 2);
      ::execve(arguments[0], arguments.data(), variables.data());
      ::_exit(127);
    }
    int status = 0;
    while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    const auto content = [](FILE* file) {
      std::string text;
      std::rewind(file);
      char part[4096];
      for (std::size_t got; (got = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, got);
      return text;
    };
    if (child > 0) said = Said{status, content(out), content(err)};
  }
  if (out != nullptr) std::fclose(out);
  if (err != nullptr) std::fclose(err);
  return said;
}

// The first line that begins with `start`, without it.
std::string line_after(const std::string& text, const std::string& start) {
  const std::size_t at = text.starts_with(start) ? 0 : text.find("\n" + start);
  if (at == std::string::npos) return "";
  const std::size_t from = at + start.size() + (text.starts_with(start) ? 0 : 1);
  return text.substr(from, text.find('\n', from) - from);
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

// By `heapspy --version` under the recorder, its traces into a folder that goes away.
std::string try_settings(const std::string& library, const std::vector<std::string>& variables) {
  std::string folder = (std::filesystem::temp_directory_path() / "heapspy-doctor-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return "";
  std::vector<std::string> environment = {"LD_PRELOAD=" + library, "HEAPSPY_OUT=" + folder + "/"};
  for (const std::string& each : variables)
    if (!each.starts_with("HEAPSPY_OUT=") && !each.starts_with("HEAPSPY_ONLY=") && each != "HEAPSPY_LOG=off")
      environment.push_back(each);
  const auto said = run({own_path(), "--version"}, environment);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!said) return "";
  const std::string line = line_after(said->err, "heapspy: ");
  return line.find("not understood") != std::string::npos ? line : "";
}

// By the loader's --list, which runs nothing of the program or the library.
std::string try_loading(const std::string& library, const std::string& loader) {
  const auto said = run({loader, "--preload", library, "--list", own_path()}, {});
  if (!said || said->out.find(library) != std::string::npos) return "";
  std::string why = line_after(said->err, "ERROR: ld.so: ");
  if (why.empty()) why = said->err.substr(0, said->err.find('\n'));
  return fmt::format("{} does not take {}: {}", loader, library, why);
}

std::vector<std::string> known_tunables() {
  std::vector<std::string> names;
  for (const char* loader : {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"}) {
    const auto said = ::access(loader, X_OK) == 0 ? run({loader, "--list-tunables"}, {}) : std::nullopt;
    if (!said || said->status != 0) continue;
    for (std::size_t at = 0; at < said->out.size();) {
      const std::size_t end = std::min(said->out.find('\n', at), said->out.size());
      const std::string line = said->out.substr(at, end - at);
      if (const std::size_t colon = line.find(':'); colon != std::string::npos) names.push_back(line.substr(0, colon));
      at = end + 1;
    }
  }
  return names;
}

const char* word(Observation::Kind kind) {
  switch (kind) {
    case Observation::Kind::ok: return "ok";
    case Observation::Kind::warn: return "warn";
    case Observation::Kind::why: return "why";
  }
  return "";
}

void print_json(const DoctorOptions& options, const std::vector<std::string>& program, const Diagnosis& diagnosis) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const Observation& each : diagnosis.observations)
    checks.push_back({{"result", word(each.kind)},
                      {"topic", each.topic},
                      {"text", each.text},
                      {"fix", each.fix.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(each.fix)}});
  nlohmann::ordered_json root = {{"schema", "heapspy.doctor/1"}};
  root["pid"] = options.pid > 0 ? nlohmann::ordered_json(options.pid) : nlohmann::ordered_json();
  root["command"] = program.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(program);
  root["recorded"] = diagnosis.recorded;
  root["checks"] = checks;
  fmt::print("{}\n", root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_text(const DoctorOptions& options, const Diagnosis& diagnosis) {
  fmt::print("{}\n", options.pid > 0 ? (diagnosis.recorded ? "is recorded" : "is not recorded")
                                     : (diagnosis.recorded ? "would be recorded" : "would not be recorded"));
  for (const Observation& each : diagnosis.observations) {
    fmt::print("{:<5} {}\n", word(each.kind), report::printable(each.text));
    if (!each.fix.empty()) fmt::print("      → {}\n", report::printable(each.fix));
  }
}

std::vector<std::string> own_environment() {
  std::vector<std::string> list;
  for (char** each = environ; *each != nullptr; each++) list.emplace_back(*each);
  return list;
}

ExitStatus examine(DoctorOptions options, std::vector<std::string> program) {
  // `heapspy doctor 4242` and `heapspy doctor -- CMD` share a place; a number is a process.
  if (program.empty())
    throw Failure(ExitStatus::wrong_usage,
                  "say which process or program, as in: heapspy doctor 4242, heapspy doctor -- java -version");
  if (program.size() == 1 && program[0].find_first_not_of("0123456789") == std::string::npos) {
    if (program[0].size() > 9 || std::stoi(program[0]) == 0)
      throw Failure(ExitStatus::target_refused, fmt::format("there is no process {}; ps -e lists those that are", program[0]));
    options.pid = std::stoi(program[0]);
    program.clear();
  }
  process::DoctorPlan plan;
  try {
    plan.library = find_recorder_library();
    plan.try_settings = [&](const std::vector<std::string>& variables) { return try_settings(plan.library, variables); };
    plan.try_loading = [&](const std::string& loader) { return try_loading(plan.library, loader); };
  } catch (const Failure&) {  // said as an observation
  }
  plan.tunables = known_tunables();
  const Diagnosis diagnosis = options.pid > 0 ? process::examine_process(process::LiveProcess(options.pid), plan)
                                              : process::examine_command(program[0], own_environment(), plan);
  if (options.json)
    print_json(options, program, diagnosis);
  else
    print_text(options, diagnosis);
  return ExitStatus::done;
}

}  // namespace

void add_doctor_command(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command =
      app.add_subcommand("doctor", "why a process is not recorded, or a program would not be, and what to change");
  command->add_option("CMD", options->program, "a process id, or a program, which is looked at and not run");
  command->add_flag("--json", options->json, "print schema heapspy.doctor/1");
  command->footer(example("heapspy doctor 4242\n  heapspy doctor -- java -jar app.jar"));
  command->callback([options, &invocation] { invocation.status = examine(*options, invocation.program); });
}

}  // namespace heapspy::cli
