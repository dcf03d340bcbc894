// The names of code that a just-in-time compiler made, as it tells perf: /tmp/perf-PID.map, one "START SIZE NAME" a line,
// numbers in hexadecimal.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heapspy::symbols {

class PerfMap {
 public:
  // nullopt: it cannot be read, or was last written before `not_before` (ns since 1970): then it is of another process that had
  // the same number.
  static std::optional<PerfMap> read(const std::string& path, std::uint64_t not_before);

  // nullptr: no code that it knows lies there. Where code was made over older code, the newer.
  const std::string* find(std::uint64_t address) const;

 private:
  struct Code {
    std::uint64_t begin = 0, end = 0;
    std::string name;
  };
  std::vector<Code> codes_;  // by begin; of equal ones the newest last
};

}  // namespace heapspy::symbols
