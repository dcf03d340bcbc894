#include "analyzer/report/suppressions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace heapspy::report {
namespace {

// As sanitizers do: a pattern may lie anywhere in the text unless "^" or "$" say otherwise.
bool matches(std::string_view pattern, std::string_view text) {
  bool at_begin = pattern.starts_with('^');
  if (at_begin) pattern.remove_prefix(1);
  const bool at_end = pattern.ends_with('$');
  if (at_end) pattern.remove_suffix(1);
  while (true) {
    const std::size_t star = pattern.find('*');
    const std::string_view part = pattern.substr(0, star);
    const bool last = star == std::string_view::npos;
    if (last && at_end && !at_begin) return text.ends_with(part);
    const std::size_t found = text.find(part);
    if (found == std::string_view::npos || (at_begin && found != 0)) return false;
    text.remove_prefix(found + part.size());
    if (last) return !at_end || text.empty();
    pattern.remove_prefix(star + 1);
    at_begin = false;
  }
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace

Suppressions Suppressions::parse(std::string_view text, const std::string& name) {
  Suppressions all;
  for (std::size_t number = 1; !text.empty(); number++) {
    const std::string_view line = trimmed(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), text.find('\n') == std::string_view::npos ? text.size() : text.find('\n') + 1));
    if (line.empty() || line.starts_with('#')) continue;
    if (!line.starts_with("leak:") || line.size() == 5)
      throw BadSuppressions(fmt::format("{}:{}: \"{}\" is no suppression; lines are leak:PATTERN", name, number, line));
    all.patterns_.emplace_back(line.substr(5));
  }
  return all;
}

Suppressions Suppressions::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw BadSuppressions(fmt::format("{}: {}; give a file with lines leak:PATTERN", path, std::strerror(errno)));
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.bad()) throw BadSuppressions(fmt::format("{}: it cannot be read; give a file with lines leak:PATTERN", path));
  return parse(text.str(), path);
}

bool Suppressions::match(const std::vector<FrameReport>& frames) const {
  return std::any_of(frames.begin(), frames.end(), [&](const FrameReport& frame) {
    return std::any_of(patterns_.begin(), patterns_.end(), [&](const std::string& pattern) {
      return matches(pattern, frame.function.str()) || matches(pattern, frame.file.str()) ||
             matches(pattern, frame.module.str());
    });
  });
}

}  // namespace heapspy::report
