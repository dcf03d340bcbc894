#include "analyzer/trial/replay_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "analyzer/trial/lock_waits.h"

namespace heapspy::trial {

namespace {

// "name number" a line; "curve TIME_US BYTES". A line of another kind says why there is no result.
ReplayOutcome parse(const std::string& text) {
  ReplayOutcome outcome;
  Replayed& result = outcome.result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t number = 0;
    if (!(words >> key >> number)) {
      outcome.problem = line;
    } else if (key == "curve") {
      CurvePoint point{static_cast<double>(number) / 1e6, 0};
      words >> point.heap_bytes;
      result.curve.push_back(point);
    } else if (key == "peak") {
      result.peak_heap_bytes = number;
    } else if (key == "baseline") {
      result.baseline_bytes = number;
    } else if (key == "end") {
      result.end_heap_bytes = number;
    } else if (key == "operations") {
      result.operations = number;
    } else if (key == "failed") {
      result.failed = number;
    } else if (key == "wall_us") {
      result.wall_s = static_cast<double>(number) / 1e6;
    } else if (key == "cpu_us") {
      result.cpu_s = static_cast<double>(number) / 1e6;
    } else if (key == "faults") {
      result.minor_faults = number;
    } else if (key == "lock_waits") {
      result.lock_waits = number;
    } else if (key == "arenas") {
      result.arenas = number;
    }
  }
  return outcome;
}

std::string read_all(int fd) {
  std::string text;
  char part[65536];
  for (;;) {
    const ssize_t got = ::read(fd, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part, static_cast<std::size_t>(got));
  }
}

struct Output {
  std::string text;
  int status = 0;
  std::optional<double> lock_wait_s;
};

Output run(const std::vector<std::string>& command, const process::EnvironmentChanges& changes, bool watch_locks) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw process::StartError(errno, fmt::format("no pipe: {}", std::strerror(errno)));
  const std::vector<std::string> environment = process::changed_environment(changes);
  std::vector<char*> arguments, variables;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  for (const std::string& each : environment) variables.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) ::posix_spawn_file_actions_adddup2(&actions, ends[1], fd);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, command[0].c_str(), &actions, nullptr, arguments.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  Output output;
  if (!error) {
    LockWaitSampler locks;
    if (watch_locks) locks.add(pid);
    output.text = read_all(ends[0]);
    if (watch_locks) output.lock_wait_s = locks.finish();
  }
  ::close(ends[0]);
  if (error)
    throw process::StartError(
        error, fmt::format("{} cannot be started: {}; install it beside libheapspy.so", command[0], std::strerror(error)));
  while (::waitpid(pid, &output.status, 0) < 0 && errno == EINTR) {
  }
  return output;
}

// What the allocator took before the first call.
void add_own_memory(Replayed& result, std::uint64_t bytes) {
  result.peak_heap_bytes += bytes;
  result.end_heap_bytes += bytes;
  for (CurvePoint& point : result.curve) point.heap_bytes += bytes;
}

}  // namespace

ReplayOutcome run_replay(const ReplayRun& plan) {
  std::vector<std::string> command = {plan.replayer, plan.operations};
  if (plan.trim_us) command.push_back(fmt::format("trim_us={}", plan.trim_us));
  if (plan.pace != 1) command.push_back(fmt::format("pace={}", plan.pace));
  if (plan.in_windows) command.emplace_back("order=window");
  const Output output = run(command, plan.environment, plan.in_windows);
  ReplayOutcome outcome = parse(output.text);
  outcome.result.lock_wait_s = output.lock_wait_s;
  if (plan.usual_baseline_bytes && outcome.result.baseline_bytes > plan.usual_baseline_bytes)
    add_own_memory(outcome.result, outcome.result.baseline_bytes - plan.usual_baseline_bytes);
  if (WIFSIGNALED(output.status))
    outcome.problem = fmt::format("the replay was killed by signal {}", WTERMSIG(output.status));
  else if (WEXITSTATUS(output.status) == 0)
    outcome.problem.clear();
  else if (outcome.problem.empty())
    outcome.problem = fmt::format("the replay ended with status {}", WEXITSTATUS(output.status));
  return outcome;
}

}  // namespace heapspy::trial
