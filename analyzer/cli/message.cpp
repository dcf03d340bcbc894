#include "analyzer/cli/message.h"

#include <fmt/core.h>

#include <cstdio>
#include <iterator>

namespace heapspy::cli {

std::string one_line(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(result), "\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result;
}

void say(std::string_view text) {
  const std::string line = "heapspy: " + one_line(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace heapspy::cli
