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

void take_memory_call(Replayed& result, const std::string& name, std::uint64_t number) {
  constexpr struct {
    const char* name;
    std::uint64_t MemoryCalls::*count;
  } kCalls[] = {{"brk", &MemoryCalls::brk},       {"mmap", &MemoryCalls::mmap},         {"munmap", &MemoryCalls::munmap},
                {"mremap", &MemoryCalls::mremap}, {"mprotect", &MemoryCalls::mprotect}, {"madvise", &MemoryCalls::madvise}};
  for (const auto& each : kCalls) {
    if (name != each.name) continue;
    if (!result.memory_calls) result.memory_calls.emplace();
    *result.memory_calls.*each.count = number;
  }
}

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
    } else if (key == "peak_operation") {
      result.peak_operation = number;
    } else if (key == "lock_waits") {
      result.lock_waits = number;
    } else if (key == "arenas") {
      result.arenas = number;
    } else {
      take_memory_call(result, key, number);
    }
  }
  return outcome;
}

// The output of a child until it closes it. `at_pause` is called for a line "paused N"; a byte on `input` lets the child go on.
std::string read_all(int fd, int input, const std::function<void(bool at_end)>& at_pause) {
  std::string text;
  char part[65536];
  std::size_t seen = 0;
  for (;;) {
    const ssize_t got = ::read(fd, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part, static_cast<std::size_t>(got));
    for (std::size_t end; (end = text.find('\n', seen)) != std::string::npos; seen = end + 1) {
      if (text.compare(seen, 7, "paused ") != 0) continue;
      at_pause(text[seen + 7] == '2');
      [[maybe_unused]] const ssize_t told = ::write(input, "", 1);
    }
  }
}

struct Output {
  std::string text;
  int status = 0;
  std::optional<double> lock_wait_s;
};

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) throw process::StartError(errno, fmt::format("no pipe: {}", std::strerror(errno)));
  }
  ~Pipe() {
    for (int i = 0; i < 2; i++) close(i);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close(int i) {
    if (ends[i] >= 0) ::close(ends[i]);
    ends[i] = -1;
  }
};

Output run(const std::vector<std::string>& command, const ReplayRun& plan) {
  Pipe out, in;
  const std::vector<std::string> environment = process::changed_environment(plan.environment);
  std::vector<char*> arguments, variables;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  for (const std::string& each : environment) variables.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.ends[0], STDIN_FILENO);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) ::posix_spawn_file_actions_adddup2(&actions, out.ends[1], fd);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, command[0].c_str(), &actions, nullptr, arguments.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  out.close(1);
  in.close(0);
  if (error)
    throw process::StartError(
        error, fmt::format("{} cannot be started: {}; install it beside libheapspy.so", command[0], std::strerror(error)));
  Output output;
  LockWaitSampler locks;
  if (plan.in_windows) locks.add(pid);
  output.text = read_all(out.ends[0], in.ends[1], [&](bool at_end) { plan.look(pid, at_end); });
  if (plan.in_windows) output.lock_wait_s = locks.finish();
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
  if (plan.first_trim_us) command.push_back(fmt::format("first_trim_us={}", plan.first_trim_us));
  if (plan.pace != 1) command.push_back(fmt::format("pace={}", plan.pace));
  if (plan.in_windows) command.emplace_back("order=window");
  if (plan.count_memory_calls) command.emplace_back("count");
  if (plan.look) command.insert(command.end(), {fmt::format("pause_at={}", plan.look_before), "pause"});
  const Output output = run(command, plan);
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
