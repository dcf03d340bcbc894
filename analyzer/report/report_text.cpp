#include "analyzer/report/report_text.h"

#include <limits>

#include "analyzer/report/sections.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kRows = 8;         // per table, so that the whole is about a page
constexpr std::size_t kSizesWidth = 54;  // of the left one of two tables beside each other
constexpr std::size_t kTimeRows = 6;

void append(Lines& lines, const Lines& more, bool gap = true) {
  if (more.empty()) return;
  if (gap && !lines.empty()) lines.emplace_back();
  lines.insert(lines.end(), more.begin(), more.end());
}

Lines with_heading(Lines lines, const Screen& screen) {
  if (!lines.empty()) lines[0] = heading(lines[0], screen);
  return lines;
}

}  // namespace

std::vector<std::string> report_text(const Report& report, const TextOptions& options) {
  const Screen& screen = options.screen;
  const std::size_t rows = options.top.value_or(options.by == By::everything ? kRows : std::numeric_limits<std::size_t>::max());
  Lines lines = header_lines(report);
  append(lines, loss_lines(report), false);
  lines.push_back(allocator_line(report));
  switch (options.by) {
    case By::thread: append(lines, thread_lines(report, screen, rows)); return lines;
    case By::arena: append(lines, arena_lines(report, screen, rows, true)); return lines;
    case By::size:
      append(lines, with_heading(size_lines(report, screen, rows), screen));
      append(lines, with_heading(lifetime_lines(report, screen, rows), screen));
      return lines;
    case By::everything: break;
  }
  append(lines, ledger_lines(report, screen));
  append(lines, findings_lines(report, screen));
  append(lines, thread_lines(report, screen, rows));
  append(lines, arena_lines(report, screen, rows, false), true);
  append(lines,
         with_heading(beside(size_lines(report, screen, rows), kSizesWidth, lifetime_lines(report, screen, rows)), screen));
  append(lines, time_lines(report, screen, options.top.value_or(kTimeRows)));
  append(lines, next_lines(report));
  return lines;
}

}  // namespace heapspy::report
