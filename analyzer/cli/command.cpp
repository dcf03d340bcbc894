#include "analyzer/cli/command.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace heapspy::cli {

CLI::Validator one_of(const std::vector<std::string>& words) {
  return CLI::Validator(
      [words](std::string& value) {
        if (std::find(words.begin(), words.end(), value) != words.end()) return std::string();
        return fmt::format("\"{}\" is not one of {}", value, fmt::join(words, ", "));
      },
      "");
}

CLI::Validator process_id() {
  return CLI::Validator(
      [](std::string& value) {
        int pid = 0;
        const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), pid);
        if (error == std::errc{} && end == value.data() + value.size() && pid > 0) return std::string();
        return fmt::format("\"{}\" is not a process id; ps -e lists them", value);
      },
      "");
}

}  // namespace heapspy::cli
