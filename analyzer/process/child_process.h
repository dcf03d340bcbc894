// Starts a program as a child of this process.
#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace heapspy::process {

// NAME → value; nullopt removes it.
using EnvironmentChanges = std::vector<std::pair<std::string, std::optional<std::string>>>;

enum class ChildOutput { inherit, discard, to_stderr };

struct ChildPlan {
  std::vector<std::string> command;           // not empty; the program is looked up in PATH as a shell does
  EnvironmentChanges environment;             // on top of this process's
  ChildOutput output = ChildOutput::inherit;  // where the child's stdout goes
  int output_fd = -1;                         // if not -1: where its stdout and stderr go
};

// The program could not be started. error: errno of execvp.
struct StartError : std::runtime_error {
  StartError(int errno_value, const std::string& line) : std::runtime_error(line), error(errno_value) {}
  int error;
};

// Forks and executes. `before_exec`, if given, is called in this process with the child's pid while the child waits,
// so that it can be traced or measured from its first instruction on. Signals that this process handles are back to
// their defaults in the child; ignored ones stay ignored. Returns once the program runs. Throws StartError.
// The caller waits for the child.
pid_t start_child(const ChildPlan& plan, const std::function<void(pid_t)>& before_exec = {});

// This process's environment with changes, as NAME=VALUE.
std::vector<std::string> changed_environment(const EnvironmentChanges& changes);

}  // namespace heapspy::process
