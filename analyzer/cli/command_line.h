// Splits `heapspy record [flags] [--] CMD…` into what is ours and what is the program's.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace heapspy::cli {

struct CommandLine {
  std::vector<std::string> own;      // for CLI11, without the program's name (argv[0])
  std::vector<std::string> program;  // CMD and its arguments; empty where the command takes none
};

// Only commands of `app` that have a positional option named CMD are split. A flag that `app` does not know is left
// for CLI11 to reject, together with all that follows.
CommandLine split_command_line(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace heapspy::cli
