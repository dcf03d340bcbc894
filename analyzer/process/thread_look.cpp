#include "analyzer/process/thread_look.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace heapspy::process {

// "4242 (name) S 1 …": a name may hold anything, ")" too. State is the first field behind it, user and system time the 12th
// and 13th.
std::optional<ThreadLook> parse_thread_stat(std::string_view text, double ticks_per_second) {
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open || ticks_per_second <= 0)
    return std::nullopt;
  ThreadLook look;
  if (std::from_chars(text.data(), text.data() + open, look.tid).ec != std::errc{}) return std::nullopt;
  look.name = text.substr(open + 1, close - open - 1);
  std::string_view rest = text.substr(close + 1);
  std::uint64_t ticks = 0;
  for (int field = 1; field <= 13; field++) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(word.size());
    if (word.empty()) return std::nullopt;
    if (field == 1) look.state = word[0];
    if (field < 12) continue;
    std::uint64_t value = 0;
    if (std::from_chars(word.data(), word.data() + word.size(), value).ec != std::errc{}) return std::nullopt;
    ticks += value;
  }
  look.cpu_s = static_cast<double>(ticks) / ticks_per_second;
  return look;
}

std::vector<ThreadLook> look_at_threads(const LiveProcess& process) {
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::vector<ThreadLook> looks;
  for (const pid_t tid : process.tasks())
    if (auto look = parse_thread_stat(process.try_text(fmt::format("task/{}/stat", tid)).value_or(""), ticks))
      looks.push_back(std::move(*look));
  return looks;
}

}  // namespace heapspy::process
