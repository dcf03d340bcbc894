#include "analyzer/report/report_text.h"

#include <algorithm>
#include <limits>

#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kRows = 8;    // per table, so that the whole is about a page
constexpr std::size_t kBeside = 4;  // spaces between two tables beside each other
constexpr std::size_t kTimeRows = 6;
constexpr std::size_t kLedgerRows = 16;
constexpr std::size_t kSites = 10;
constexpr std::size_t kBranches = 5;  // of each node of a tree
constexpr std::size_t kSitesOfAll = 5;

void append(Lines& lines, const Lines& more, bool gap = true) {
  if (more.empty()) return;
  if (gap && !lines.empty()) lines.emplace_back();
  lines.insert(lines.end(), more.begin(), more.end());
}

Lines with_heading(Lines lines, const Screen& screen) {
  if (!lines.empty()) lines[0] = heading(lines[0], screen);
  return lines;
}

// Beside each other where there is room.
Lines sizes_and_lifetimes(const Report& report, const Screen& screen, std::size_t rows) {
  Lines sizes = size_lines(report, screen, rows);
  const Lines lives = lifetime_lines(report, rows);
  if (lives.empty()) return sizes;
  std::size_t left_width = 0, right_width = 0;
  for (const std::string& line : sizes) left_width = std::max(left_width, columns(line));
  for (const std::string& line : lives) right_width = std::max(right_width, columns(line));
  if (left_width + kBeside + right_width <= kWidth) return beside(sizes, left_width + kBeside, lives);
  append(sizes, lives);
  return sizes;
}

}  // namespace

std::vector<std::string> report_text(const Report& report, const TextOptions& options) {
  const Screen& screen = options.screen;
  const std::size_t rows = options.top.value_or(options.by == By::everything ? kRows : std::numeric_limits<std::size_t>::max());
  Lines lines = header_lines(report);
  append(lines, loss_lines(report), false);
  append(lines, order_lines(report), false);
  lines.push_back(allocator_line(report));
  if (options.tree) {
    append(lines, tree_lines(report, screen, *options.tree, options.top.value_or(kBranches)));
    return lines;
  }
  if (options.ledger) {
    append(lines, full_ledger_lines(report, screen, options.top.value_or(kLedgerRows)));
    return lines;
  }
  switch (options.by) {
    case By::thread:
      append(lines, thread_lines(report, screen, rows));
      append(lines, java_thread_lines(report, screen, rows));
      return lines;
    case By::site: append(lines, site_lines(report, screen, options.top.value_or(kSites), true)); return lines;
    case By::module: append(lines, module_table_lines(report, screen, rows)); return lines;
    case By::arena: append(lines, arena_lines(report, screen, rows, true)); return lines;
    case By::size:
      append(lines, with_heading(size_lines(report, screen, rows), screen));
      append(lines, with_heading(lifetime_lines(report, rows), screen));
      return lines;
    default: break;
  }
  append(lines, ledger_lines(report, screen));
  append(lines, findings_lines(report, screen));
  append(lines, site_lines(report, screen, options.top.value_or(kSitesOfAll), false));
  append(lines, java_lines(report, screen, rows));
  append(lines, thread_lines(report, screen, rows));
  append(lines, arena_lines(report, screen, rows, false), true);
  append(lines, with_heading(sizes_and_lifetimes(report, screen, rows), screen));
  append(lines, time_lines(report, screen, options.top.value_or(kTimeRows)));
  append(lines, mark_lines(report, screen, rows));
  append(lines, next_lines(report));
  return lines;
}

}  // namespace heapspy::report
