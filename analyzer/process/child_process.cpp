#include "analyzer/process/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

namespace heapspy::process {
namespace {

struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) throw StartError(errno, fmt::format("no pipe can be made: {}", std::strerror(errno)));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(int end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& each : strings) result.push_back(each.data());
  result.push_back(nullptr);
  return result;
}

void wait_away(pid_t pid) {
  while (::waitpid(pid, nullptr, __WALL) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void become(char* const* command, char* const* environment, const ChildPlan& plan, int gate, int errors) {
  char go;
  while (::read(gate, &go, 1) < 0 && errno == EINTR) {
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (plan.output_fd >= 0) {
    ::dup2(plan.output_fd, STDOUT_FILENO);
    ::dup2(plan.output_fd, STDERR_FILENO);
  } else if (plan.output == ChildOutput::to_stderr) {
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
  } else if (plan.output == ChildOutput::discard) {
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) ::dup2(null, STDOUT_FILENO);
  }
  ::execvpe(command[0], command, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(errors, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

std::vector<std::string> changed_environment(const EnvironmentChanges& changes) {
  std::vector<std::string> result;
  const auto changed = [&](std::string_view entry) {
    const std::string_view name = entry.substr(0, entry.find('='));
    for (const auto& change : changes)
      if (change.first == name) return true;
    return false;
  };
  for (char** entry = environ; entry != nullptr && *entry != nullptr; entry++)
    if (!changed(*entry)) result.emplace_back(*entry);
  for (const auto& [name, value] : changes)
    if (value) result.push_back(name + "=" + *value);
  return result;
}

pid_t start_child(const ChildPlan& plan, const std::function<void(pid_t)>& before_exec) {
  std::vector<std::string> command = plan.command, environment = changed_environment(plan.environment);
  const std::vector<char*> arguments = pointers(command), variables = pointers(environment);
  Pipe gate, errors;
  const pid_t pid = ::fork();
  if (pid < 0) throw StartError(errno, fmt::format("no process can be made: {}", std::strerror(errno)));
  if (pid == 0) {
    gate.close_end(1);
    become(arguments.data(), variables.data(), plan, gate.ends[0], errors.ends[1]);
  }
  errors.close_end(1);
  try {
    if (before_exec) before_exec(pid);
  } catch (...) {
    ::kill(pid, SIGKILL);
    wait_away(pid);
    throw;
  }
  gate.close_end(1);
  int error = 0;
  ssize_t got;
  while ((got = ::read(errors.ends[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got != sizeof error) return pid;
  wait_away(pid);
  const char* what = error == ENOENT ? "command not found" : std::strerror(error);
  throw StartError(error, fmt::format("{}: {}", plan.command[0], what));
}

}  // namespace heapspy::process
