#include "analyzer/report/drawing.h"

#include <algorithm>
#include <cmath>

namespace heapspy::report {

std::string bar(double share, std::size_t width) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(share > 0)) return "";
  const double all = std::min(share, 1.0) * static_cast<double>(width) * 8;
  const auto eighths = std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(all)));
  std::string drawn;
  for (std::size_t i = 0; i < eighths / 8; i++) drawn += "█";
  return drawn + kEighths[eighths % 8];
}

std::string sparkline(const std::vector<std::optional<std::uint64_t>>& values) {
  static constexpr const char* kHeights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::uint64_t most = 0;
  for (const auto& value : values) most = std::max(most, value.value_or(0));
  std::string drawn;
  for (const auto& value : values) {
    if (value.value_or(0) == 0) {
      drawn += ' ';
      continue;
    }
    const double share = static_cast<double>(*value) / static_cast<double>(most);
    drawn += kHeights[std::clamp(static_cast<int>(std::ceil(share * 8)) - 1, 0, 7)];
  }
  return drawn;
}

}  // namespace heapspy::report
