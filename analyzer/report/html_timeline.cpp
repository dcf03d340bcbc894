#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/html_sections.h"
#include "analyzer/report/printable.h"

namespace heapspy::report {
namespace {

constexpr double kWide = 960, kHigh = 260, kLeft = 76, kRight = 12, kTop = 10, kBottom = 24;
constexpr int kTimes = 6;           // on the axis below
constexpr std::size_t kMarks = 50;  // drawn

struct Series {
  const char *name, *style;
  Bytes PointReport::*figure;
};
constexpr Series kSeries[] = {{"RSS", "rss", &PointReport::rss_bytes},
                              {"system", "system", &PointReport::system_bytes},
                              {"live", "live", &PointReport::live_bytes},
                              {"pinned", "pinned", &PointReport::pinned_bytes}};

// A round number of bytes that divides 0 … most into four parts or fewer: 1, 2, 4 … of a unit.
std::uint64_t step_of(std::uint64_t most) {
  std::uint64_t step = 1;
  while (step < most / 4 + 1 && step < (std::uint64_t{1} << 62)) step *= 2;
  return step;
}

class Plot {
 public:
  Plot(Html& html, const Report& report) : html_(html), points_(report.timeline), marks_(report.marks) {
    begin_ = points_.front().time_s;
    span_ = std::max(points_.back().time_s - begin_, 1e-9);
    for (const PointReport& point : points_)
      for (const Series& series : kSeries) most_ = std::max(most_, (point.*series.figure).value_or(0));
  }

  void draw() {
    html_.open("svg",
               {{"viewBox", fmt::format("0 0 {} {}", kWide, kHigh)}, {"role", "img"}, {"aria-label", "memory over time"}});
    draw_grid();
    for (std::size_t i = 0; i < std::min(kMarks, marks_.size()); i++) draw_mark(marks_[i]);
    for (const Series& series : kSeries) draw_curve(series);
    html_.close();
  }

 private:
  double x(double time_s) const { return kLeft + (time_s - begin_) / span_ * (kWide - kLeft - kRight); }
  double y(std::uint64_t bytes) const {
    const double share = most_ ? static_cast<double>(bytes) / static_cast<double>(most_) : 0;
    return kHigh - kBottom - share * (kHigh - kTop - kBottom);
  }

  void line(const char* style, double x1, double y1, double x2, double y2) {
    html_.element("line", "",
                  {{"class", style}, {"x1", number(x1)}, {"y1", number(y1)}, {"x2", number(x2)}, {"y2", number(y2)}});
  }
  void label(const std::string& text, double at_x, double at_y, const char* anchor) {
    html_.element("text", text, {{"x", number(at_x)}, {"y", number(at_y)}, {"text-anchor", anchor}});
  }
  static std::string number(double value) { return fmt::format("{:.1f}", value); }

  void draw_grid() {
    const std::uint64_t step = step_of(most_);
    for (std::uint64_t bytes = 0; bytes <= most_; bytes += step) {
      line("grid", kLeft, y(bytes), kWide - kRight, y(bytes));
      label(findings::bytes_text(bytes), kLeft - 6, y(bytes) + 4, "end");
    }
    for (int i = 0; i <= kTimes; i++) {
      const double time_s = begin_ + span_ * i / kTimes;
      label(findings::seconds_text(std::max(time_s, 0.0)), x(time_s), kHigh - 6, i == kTimes ? "end" : i ? "middle" : "start");
    }
  }

  void draw_mark(const MarkReport& mark) {
    if (!(mark.time_s >= begin_ && mark.time_s <= begin_ + span_)) return;
    html_.open("g");
    html_.element("title", mark.kind == "mark" ? mark.text : "recording " + mark.kind);
    line("mark", x(mark.time_s), kTop, x(mark.time_s), kHigh - kBottom);
    html_.close();
  }

  void draw_curve(const Series& series) {
    std::string path;
    std::size_t known = 0;
    for (const PointReport& point : points_)
      if (const Bytes& bytes = point.*series.figure) {
        path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x(point.time_s), y(*bytes));
        known++;
      }
    if (known == 0) return;
    html_.element("polyline", "", {{"class", series.style}, {"points", path}});
    if (known > 200) return;  // a dot each would hide the curve
    for (const PointReport& point : points_)
      if (const Bytes& bytes = point.*series.figure; bytes && series.figure != &PointReport::live_bytes) {
        html_.open("circle", {{"class", series.style}, {"cx", number(x(point.time_s))}, {"cy", number(y(*bytes))}, {"r", "2"}});
        html_.element("title", fmt::format("{}: {} at {:.3f} s", series.name, findings::bytes_text(*bytes), point.time_s));
        html_.close();
      }
  }

  Html& html_;
  const std::vector<PointReport>& points_;
  const std::vector<MarkReport>& marks_;
  double begin_ = 0, span_ = 1;
  std::uint64_t most_ = 0;
};

}  // namespace

void write_timeline(Html& html, const Report& report) {
  const std::vector<PointReport>& points = report.timeline;
  if (points.empty()) return;
  write_heading(html, fmt::format("Over time ({} to {})", findings::seconds_text(points.front().time_s),
                                  findings::seconds_text(points.back().time_s)));
  Plot(html, report).draw();
  html.open("p", {{"class", "legend"}});
  for (const Series& series : kSeries) {
    Bytes most;
    for (const PointReport& point : points)
      if (point.*series.figure) most = std::max(most.value_or(0), *(point.*series.figure));
    html.open("span");
    html.element("b", series.name, {{"class", series.style}});
    if (most) html.text("at most ");
    html.bytes(most);
    html.close();
  }
  html.close();
  html.open("details");
  html.element("summary", "These figures as a table");
  {
    HtmlTable table(html, {"Time", "RSS", "system", "live", "pinned"});
    for (const PointReport& point : points) {
      table.row().text(fmt::format("{:.3f} s", point.time_s));
      for (const Series& series : kSeries) table.bytes(point.*series.figure);
    }
  }
  html.close();
}

void write_marks(Html& html, const Report& report) {
  if (report.marks.empty()) return;
  write_heading(html, "Marks");
  {
    HtmlTable table(html, {"Time", "", "Thread"}, {1, 2});
    for (const MarkReport& mark : report.marks) {
      const ThreadReport* thread = mark.thread ? thread_with_id(report, *mark.thread) : nullptr;
      table.row().text(fmt::format("{:.3f} s", mark.time_s));
      table.text(mark.kind == "mark" ? mark.text : "recording " + mark.kind).text(thread ? thread->name : "");
    }
  }
  if (report.marks_left_out) html.element("p", fmt::format("and {} more", findings::count_text(report.marks_left_out)));
}

}  // namespace heapspy::report
