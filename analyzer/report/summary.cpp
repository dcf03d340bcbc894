#include "analyzer/report/summary.h"

#include <fmt/core.h>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kLines = 5;

std::string rss_line(const Report& report) {
  std::string line = fmt::format("live at most {} at once", bytes_or_unknown(report.totals.peak_live_bytes));
  if (report.rss.total_bytes) {
    std::string rss = fmt::format("RSS {} {}", findings::bytes_text(*report.rss.total_bytes), moments_text(report));
    if (report.rss_at_end.total_bytes && !at_is_end(report))
      rss += fmt::format(", {} {}", findings::bytes_text(*report.rss_at_end.total_bytes), moment_text(report.end_at));
    line = rss + "; " + line;
  }
  return line;
}

}  // namespace

std::vector<std::string> five_lines(const Report& report) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format(
      "{}, {}; {}, {} lost; {}", report.process.duration_s ? findings::seconds_text(*report.process.duration_s) : "?",
      ended_text(report), findings::plural_text(report.trace.events, "event", "events"),
      findings::count_text(report.trace.lost_events), findings::plural_text(report.threads.size(), "thread", "threads")));
  const Lines losses = loss_lines(report);
  if (!losses.empty()) lines.push_back(losses[0]);
  lines.push_back(rss_line(report));
  lines.push_back(allocator_line(report));
  if (report.findings.empty()) lines.emplace_back("Nothing stands out.");
  for (const findings::Finding& finding : report.findings) {
    if (lines.size() == kLines) break;
    lines.push_back(finding_headline(finding) + ". " + printable(finding.text));
  }
  for (std::string& line : lines) line = fit(line, kWidth);
  return lines;
}

}  // namespace heapspy::report
