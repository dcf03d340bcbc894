#include "analyzer/report/merged_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

using findings::bytes_text;
using findings::count_text;
using findings::plural_text;

constexpr std::size_t kRows = 8;
constexpr std::size_t kSites = 10;
constexpr std::size_t kSitesOfAll = 5;
constexpr std::size_t kBranches = 5;  // of each node of a tree
constexpr std::size_t kFindings = 2;  // of one process

void append(Lines& lines, const Lines& more) {
  if (more.empty()) return;
  if (!lines.empty()) lines.emplace_back();
  lines.insert(lines.end(), more.begin(), more.end());
}

std::uint64_t count_ended(const MergedReport& merged, const char* how) {
  return static_cast<std::uint64_t>(
      std::count_if(merged.processes.begin(), merged.processes.end(), [&](const ProcessRow& row) { return row.end == how; }));
}

Lines process_lines(const MergedReport& merged, const Screen& screen, std::size_t top) {
  std::vector<const ProcessRow*> rows;
  for (const ProcessRow& row : merged.processes) rows.push_back(&row);
  const std::size_t shown = std::min(top, rows.size());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProcessRow* a, const ProcessRow* b) { return weight_of(*a) > weight_of(*b); });
  const std::string title = shown == rows.size() ? fmt::format("Processes ({})", count_text(shown))
                                                 : fmt::format("Processes ({} of {})", shown, count_text(rows.size()));
  const bool any_private =
      std::any_of(rows.begin(), rows.end(), [](const ProcessRow* row) { return row->private_dirty_bytes.has_value(); });
  std::vector<std::string> headings = {title, "peak RSS", "live at most", "live at end", "allocations", "bytes", "time"};
  if (any_private) headings.insert(headings.begin() + 2, "private");
  Table table(headings);
  const auto add = [&](std::vector<std::string> cells, const std::string& own) {
    if (any_private) cells.insert(cells.begin() + 2, own);
    table.add(std::move(cells));
  };
  for (std::size_t i = 0; i < shown; i++) {
    const ProcessRow& row = *rows[i];
    add({fmt::format("  {} {}", row.pid, row.name), bytes_or_unknown(row.peak_rss_bytes),
         bytes_or_unknown(row.totals.peak_live_bytes), bytes_or_unknown(row.totals.live_bytes),
         count_text(row.totals.allocations), bytes_text(row.totals.bytes_allocated),
         row.duration_s ? findings::seconds_text(*row.duration_s) : "?"},
        bytes_or_unknown(row.private_dirty_bytes));
  }
  add({"  all", "", "", bytes_or_unknown(merged.totals.live_bytes), count_text(merged.totals.allocations),
       bytes_text(merged.totals.bytes_allocated), merged.duration_s ? findings::seconds_text(*merged.duration_s) : "?"},
      "");
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  return lines;
}

// What children did with what they had from their parents.
Lines inherited_lines(const MergedReport& merged, const Screen& screen, std::size_t top) {
  std::vector<const ProcessRow*> rows;
  for (const ProcessRow& row : merged.processes)
    if (row.inherited && row.inherited->blocks_at_fork + row.inherited->frees) rows.push_back(&row);
  if (rows.empty()) return {};
  const std::size_t shown = std::min(top, rows.size());
  std::stable_sort(rows.begin(), rows.end(), [](const ProcessRow* a, const ProcessRow* b) {
    return a->inherited->bytes_at_fork > b->inherited->bytes_at_fork;
  });
  const std::string title = shown == rows.size()
                                ? "Blocks had from the parent"
                                : fmt::format("Blocks had from the parent ({} of {})", shown, count_text(rows.size()));
  Table table({title, "parent", "at fork", "bytes", "freed", "bytes", "still live"});
  for (std::size_t i = 0; i < shown; i++) {
    const InheritedReport& inherited = *rows[i]->inherited;
    table.add({fmt::format("  {} {}", rows[i]->pid, rows[i]->name),
               rows[i]->parent_pid ? fmt::format("{}", *rows[i]->parent_pid) : "?", count_text(inherited.blocks_at_fork),
               bytes_text(inherited.bytes_at_fork), count_text(inherited.frees), bytes_text(inherited.bytes_freed),
               bytes_text(inherited.live_bytes)});
  }
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  return lines;
}

Lines finding_lines(const MergedReport& merged, const Screen& screen) {
  if (merged.findings.empty()) return {heading("What this means", screen), "  Nothing stands out in any process."};
  Lines lines;
  for (const ProcessFindings& of : merged.findings) {
    Report one;  // findings_lines shows nothing else of it
    one.findings.assign(of.findings.begin(),
                        of.findings.begin() + static_cast<std::ptrdiff_t>(std::min(kFindings, of.findings.size())));
    Lines more = findings_lines(one, screen);
    const ProcessRow& row = merged.processes[of.process];
    more[0] = heading(fit(fmt::format("What this means for {} {}", row.pid, row.name), kWidth), screen);
    append(lines, more);
    if (of.findings.size() > kFindings) lines.push_back(fmt::format("  and {} more", of.findings.size() - kFindings));
  }
  return lines;
}

Lines named_thread_lines(const MergedReport& merged, const Screen& screen, std::size_t top) {
  const std::size_t shown = std::min(top, merged.threads.size());
  const std::string title = shown == merged.threads.size()
                                ? fmt::format("Threads by name ({})", count_text(shown))
                                : fmt::format("Threads by name ({} of {})", shown, count_text(merged.threads.size()));
  Table table({title, "threads", "processes", "allocations", "bytes", "live", "freed by others"});
  for (std::size_t i = 0; i < shown; i++) {
    const NamedThreads& thread = merged.threads[i];
    table.add({"  " + (thread.name.empty() ? "(no name)" : printable(thread.name)), count_text(thread.threads),
               count_text(thread.processes), count_text(thread.allocations), bytes_text(thread.bytes_allocated),
               bytes_or_unknown(thread.live_bytes),
               thread.freed_by_others ? findings::percent_text(*thread.freed_by_others, thread.allocations) : "?"});
  }
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  return lines;
}

// The tables of one trace's report show the same rows.
Report sizes_of(const MergedReport& merged) {
  Report report;
  report.sizes = merged.sizes;
  report.lifetimes = merged.lifetimes;
  return report;
}

}  // namespace

std::vector<std::string> merged_head_texts(const MergedReport& merged) {
  std::string facts = plural_text(merged.processes.size(), "process", "processes");
  for (const auto& [end, words] : {std::pair("killed", "killed"), std::pair("running", "still running")})
    if (const std::uint64_t count = count_ended(merged, end)) facts += fmt::format(" ({} {})", count_text(count), words);
  facts += fmt::format(" · {} · {}, {} lost", merged.duration_s ? findings::seconds_text(*merged.duration_s) : "?",
                       plural_text(merged.trace.events, "event", "events"), count_text(merged.trace.lost_events));
  std::vector<std::string> texts = {facts};
  const auto add = [&](const std::string& text) { texts.push_back(text); };
  if (merged.totals.standard_error)
    add(fmt::format("Some are samples, so sums are estimates: {} allocations of {}.",
                    count_estimate(merged.totals.allocations, merged.totals.standard_error->allocations),
                    bytes_estimate(merged.totals.bytes_allocated, merged.totals.standard_error->bytes_allocated)));
  if (merged.trace.lost_events)
    add("Incomplete: counts are too low by what was lost, and blocks may seem alive that were freed.");
  if (!merged.unreadable.empty())
    add(fmt::format("Left out: {}, such as {}: {}.",
                    plural_text(merged.unreadable.size(), "file that is no trace", "files that are no traces"),
                    fit(printable(merged.unreadable[0].trace), 60), fit(printable(merged.unreadable[0].reason), 160)));
  if (!merged.copies.empty())
    add(fmt::format("Left out: {}, such as {}: {}.",
                    plural_text(merged.copies.size(), "trace of a process that is here already",
                                "traces of processes that are here already"),
                    fit(printable(merged.copies[0].trace), 60), fit(printable(merged.copies[0].reason), 160)));
  if (!merged.damaged.empty())
    add(fmt::format("Damaged: {}; the first is {}: {}.",
                    plural_text(merged.damaged.size() + merged.trace.damage_left_out, "trace", "traces"),
                    fit(printable(merged.damaged[0].trace), 60), fit(printable(merged.damaged[0].reason), 160)));
  if (merged.totals.unknown_frees.value_or(0))
    add(fmt::format("{} of blocks whose allocation the traces do not hold.",
                    plural_text(*merged.totals.unknown_frees, "free", "frees")));
  return texts;
}

std::uint64_t weight_of(const ProcessRow& row) {
  return row.peak_rss_bytes.value_or(row.totals.peak_live_bytes.value_or(row.totals.bytes_allocated));
}

std::vector<std::string> merged_text(const MergedReport& merged, const TextOptions& options) {
  const Screen& screen = options.screen;
  const std::size_t rows = options.top.value_or(options.by == By::everything ? kRows : std::numeric_limits<std::size_t>::max());
  Lines lines = {fit(printable(merged.path), kWidth)};
  for (const std::string& text : merged_head_texts(merged))
    for (std::string& line : wrap(text, kWidth)) lines.push_back(std::move(line));
  const auto sizes = [&] {
    const Report report = sizes_of(merged);
    append(lines, size_lines(report, screen, rows));
    append(lines, lifetime_lines(report, rows));
  };
  if (options.tree) {
    append(lines, tree_lines(merged.stacks, screen, *options.tree, options.top.value_or(kBranches)));
    return lines;
  }
  switch (options.by) {
    case By::site: append(lines, site_lines(merged.stacks, screen, options.top.value_or(kSites), true)); return lines;
    case By::module: append(lines, module_table_lines(merged.stacks, screen, rows)); return lines;
    case By::process:
      append(lines, process_lines(merged, screen, rows));
      append(lines, inherited_lines(merged, screen, rows));
      return lines;
    case By::thread: append(lines, named_thread_lines(merged, screen, rows)); return lines;
    case By::size: sizes(); return lines;
    default: break;
  }
  append(lines, process_lines(merged, screen, rows));
  append(lines, inherited_lines(merged, screen, rows));
  append(lines, finding_lines(merged, screen));
  append(lines, site_lines(merged.stacks, screen, options.top.value_or(kSitesOfAll), false));
  append(lines, named_thread_lines(merged, screen, rows));
  sizes();
  lines.emplace_back();
  lines.emplace_back("Next: heapspy report TRACE (one of them) · heapspy report … --by process|thread|size|site");
  return lines;
}

}  // namespace heapspy::report
