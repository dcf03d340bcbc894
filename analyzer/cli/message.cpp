#include "analyzer/cli/message.h"

#include <cstdio>
#include <string>

#include "analyzer/report/printable.h"

namespace heapspy::cli {

void say(std::string_view text) {
  const std::string line = "heapspy: " + report::printable(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace heapspy::cli
