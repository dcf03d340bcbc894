#include "analyzer/report/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "analyzer/findings/quantity.h"

namespace heapspy::report {

namespace {

constexpr std::size_t kLabel = 11;  // columns left of the picture

// The highest of the curve in each column; between two points the earlier goes on.
std::vector<std::optional<std::uint64_t>> columns_of(const PlotCurve& curve, double end, std::size_t columns) {
  std::vector<std::optional<std::uint64_t>> highest(columns), last(columns);
  for (const PlotPoint& point : curve.points) {
    const auto at = std::min(columns - 1, static_cast<std::size_t>(point.time_s / end * static_cast<double>(columns)));
    highest[at] = std::max(highest[at].value_or(0), point.bytes);
    last[at] = point.bytes;
  }
  for (std::size_t i = 1; i < columns; i++)
    if (!highest[i]) highest[i] = last[i] = last[i - 1];
  return highest;
}

}  // namespace

std::vector<std::string> plot(const std::vector<PlotCurve>& curves, std::size_t width, std::size_t height) {
  std::uint64_t most = 0;
  double end = 0;
  for (const PlotCurve& curve : curves)
    for (const PlotPoint& point : curve.points) {
      most = std::max(most, point.bytes);
      end = std::max(end, point.time_s);
    }
  if (!most || end <= 0 || height < 2 || width < kLabel + 10) return {};
  const std::size_t columns = width - kLabel - 1;
  std::vector<std::string> rows(height, std::string(columns, ' '));
  for (const PlotCurve& curve : curves) {
    const auto heights = columns_of(curve, end, columns);
    for (std::size_t i = 0; i < columns; i++) {
      if (!heights[i]) continue;
      const auto step = static_cast<std::size_t>(
          std::llround(static_cast<double>(*heights[i]) / static_cast<double>(most) * static_cast<double>(height - 1)));
      char& place = rows[height - 1 - step][i];
      if (place == ' ') place = curve.mark;
    }
  }
  std::vector<std::string> lines;
  for (std::size_t row = 0; row < height; row++) {
    const bool named = row == 0 || row + 1 == height || row == (height - 1) / 2;
    const auto value = static_cast<std::uint64_t>(static_cast<double>(most) * static_cast<double>(height - 1 - row) /
                                                  static_cast<double>(height - 1));
    std::string& text = rows[row];
    text.erase(text.find_last_not_of(' ') + 1);
    lines.push_back(fmt::format("{:>{}} |{}", named ? findings::bytes_text(value) : "", kLabel - 1, text));
  }
  const std::string right = findings::seconds_text(end);
  lines.push_back(fmt::format("{:>{}} +{:-<{}}", "", kLabel - 1, "", columns));
  lines.push_back(fmt::format("{:>{}} 0{:>{}}", "", kLabel - 1, right, columns));
  return lines;
}

}  // namespace heapspy::report
