#include "analyzer/cli/command_line.h"

#include <algorithm>

namespace heapspy::cli {
namespace {

// How many further arguments belong to `flag`; -1 when the command does not know it.
int values_after(const CLI::App& command, const std::string& flag) {
  const bool is_long = flag.starts_with("--");
  const std::size_t equals = flag.find('=');
  std::string name = flag.substr(0, is_long ? equals : 2);
  const CLI::Option* option = command.get_option_no_throw(name);
  if (option == nullptr || option->get_positional()) return -1;
  const bool carries_value = is_long ? equals != std::string::npos : flag.size() > 2;
  if (carries_value) return 0;
  return option->get_items_expected_min() > 0 ? 1 : 0;
}

}  // namespace

CommandLine split_command_line(const CLI::App& app, const std::vector<std::string>& arguments) {
  CommandLine result{arguments, {}};
  if (arguments.empty()) return result;
  const auto commands = app.get_subcommands([&](const CLI::App* each) { return each->check_name(arguments[0]); });
  if (commands.empty() || commands[0]->get_option_no_throw("CMD") == nullptr) return result;

  std::size_t at = 1;
  while (at < arguments.size()) {
    const std::string& argument = arguments[at];
    if (argument == "--" || argument.size() < 2 || argument[0] != '-') break;
    const int values = values_after(*commands[0], argument);
    if (values < 0) return result;
    at += 1 + static_cast<std::size_t>(values);
  }
  if (at >= arguments.size()) return result;
  const auto own_end = arguments.begin() + static_cast<std::ptrdiff_t>(at);
  const bool has_mark = arguments[at] == "--";
  result.own.assign(arguments.begin(), own_end);
  result.program.assign(own_end + (has_mark ? 1 : 0), arguments.end());
  return result;
}

}  // namespace heapspy::cli
