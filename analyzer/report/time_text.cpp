#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/drawing.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kDrawn = 64;  // columns of a sparkline

using Curve = std::vector<std::optional<std::uint64_t>>;

// The largest known value in each of kDrawn equal stretches of time; unknown stays unknown.
Curve drawn(const std::vector<PointReport>& points, Bytes PointReport::*figure) {
  Curve curve(kDrawn);
  const double begin = points.front().time_s, span = points.back().time_s - begin;
  for (const PointReport& point : points) {
    if (!(point.*figure)) continue;
    const double at = span > 0 ? (point.time_s - begin) / span * (kDrawn - 1) : 0;
    auto& value = curve[static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(kDrawn - 1)))];
    value = std::max(value.value_or(0), *(point.*figure));
  }
  return curve;
}

void add_curve(Lines& lines, const char* label, const std::vector<PointReport>& points, Bytes PointReport::*figure) {
  std::uint64_t most = 0;
  bool known = false;
  for (const PointReport& point : points)
    if (point.*figure) known = true, most = std::max(most, *(point.*figure));
  if (!known) return;
  lines.push_back(
      fmt::format("  {} {} {}", left(label, 7), right(findings::bytes_text(most), 10), sparkline(drawn(points, figure))));
}

// The rows of a plain table: the highest live bytes, the last point, and others spread evenly over the indices, those
// with a snapshot first.
std::vector<std::size_t> chosen(const std::vector<PointReport>& points, std::size_t top) {
  std::vector<std::size_t> with, without, rows;
  std::size_t highest = 0;
  for (std::size_t i = 0; i < points.size(); i++) {
    if (points[i].live_bytes.value_or(0) > points[highest].live_bytes.value_or(0)) highest = i;
    (points[i].rss_bytes ? with : without).push_back(i);
  }
  const auto add = [&](std::size_t i) {
    if (rows.size() < top && std::find(rows.begin(), rows.end(), i) == rows.end()) rows.push_back(i);
  };
  add(points.size() - 1);
  add(highest);
  for (const auto& list : {with, without}) {
    const std::size_t room = top - rows.size();
    for (std::size_t k = 0; k < room && !list.empty(); k++) add(list[room > 1 ? k * (list.size() - 1) / (room - 1) : 0]);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace

Lines time_lines(const Report& report, const Screen& screen, std::size_t top) {
  const std::vector<PointReport>& points = report.timeline;
  if (points.empty() || top == 0) return {};
  if (screen.terminal) {
    Lines lines = {
        heading(fmt::format("Over time ({} to {}; figures are the highest)", findings::seconds_text(points.front().time_s),
                            findings::seconds_text(points.back().time_s)),
                screen)};
    add_curve(lines, "RSS", points, &PointReport::rss_bytes);
    add_curve(lines, "system", points, &PointReport::system_bytes);
    add_curve(lines, "live", points, &PointReport::live_bytes);
    add_curve(lines, "pinned", points, &PointReport::pinned_bytes);
    return lines;
  }
  Table table({"Over time", "RSS", "system", "live", "pinned"});
  for (const std::size_t i : chosen(points, top)) {
    const PointReport& point = points[i];
    table.add({fmt::format("  {:.3f} s", point.time_s), bytes_or_unknown(point.rss_bytes), bytes_or_unknown(point.system_bytes),
               bytes_or_unknown(point.live_bytes), bytes_or_unknown(point.pinned_bytes)});
  }
  return table.lines(kWidth);
}

}  // namespace heapspy::report
