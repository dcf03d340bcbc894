// Which leaks are known and not to be told: LeakSanitizer's file, lines "leak:PATTERN". A pattern is a part of a function's,
// file's or module's name of any frame; "*" stands for anything, "^" and "$" for begin and end. "#" begins a comment.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/report/report.h"

namespace heapspy::report {

// what() is one line: file, line, what is accepted.
struct BadSuppressions : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Suppressions {
 public:
  Suppressions() = default;
  // Throws BadSuppressions. `name`: of the file, for messages.
  static Suppressions parse(std::string_view text, const std::string& name);
  static Suppressions read(const std::string& path);

  bool empty() const { return patterns_.empty(); }
  bool match(const std::vector<FrameReport>&) const;

 private:
  std::vector<std::string> patterns_;
};

}  // namespace heapspy::report
