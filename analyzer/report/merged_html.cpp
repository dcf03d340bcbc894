#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/html_sections.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/report_html.h"
#include "analyzer/report/sections.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kRows = 1000;

std::string counted(const char* title, std::size_t shown, std::size_t all) {
  return shown == all ? fmt::format("{} ({})", title, findings::count_text(all))
                      : fmt::format("{} ({} of {})", title, findings::count_text(shown), findings::count_text(all));
}

std::string process_label(const ProcessRow& row) { return fmt::format("{} {}", row.pid, row.name); }

void write_processes(Html& html, const MergedReport& merged) {
  std::vector<const ProcessRow*> rows;
  for (const ProcessRow& row : merged.processes) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProcessRow* a, const ProcessRow* b) { return weight_of(*a) > weight_of(*b); });
  const std::size_t shown = std::min(kRows, rows.size());
  write_heading(html, counted("Processes", shown, rows.size()));
  HtmlTable table(html,
                  {"", "peak RSS", "private", "live at most", "live at end", "allocations", "bytes", "events", "lost", "time"});
  for (std::size_t i = 0; i < shown; i++) {
    const ProcessRow& row = *rows[i];
    table.row().text(process_label(row)).bytes(row.peak_rss_bytes).bytes(row.private_dirty_bytes);
    table.bytes(row.totals.peak_live_bytes).bytes(row.totals.live_bytes).count(row.totals.allocations);
    table.bytes(row.totals.bytes_allocated).count(row.events).count(row.lost_events);
    table.text(row.duration_s ? findings::seconds_text(*row.duration_s) : "?");
  }
  table.row().text("all").text("").text("").text("").bytes(merged.totals.live_bytes).count(merged.totals.allocations);
  table.bytes(merged.totals.bytes_allocated).count(merged.trace.events).count(merged.trace.lost_events);
  table.text(merged.duration_s ? findings::seconds_text(*merged.duration_s) : "?");
}

void write_inherited(Html& html, const MergedReport& merged) {
  std::vector<const ProcessRow*> rows;
  for (const ProcessRow& row : merged.processes)
    if (row.inherited && row.inherited->blocks_at_fork + row.inherited->frees) rows.push_back(&row);
  if (rows.empty()) return;
  std::stable_sort(rows.begin(), rows.end(), [](const ProcessRow* a, const ProcessRow* b) {
    return a->inherited->bytes_at_fork > b->inherited->bytes_at_fork;
  });
  const std::size_t shown = std::min(kRows, rows.size());
  write_heading(html, counted("Blocks had from the parent", shown, rows.size()));
  HtmlTable table(html, {"", "parent", "at fork", "bytes", "freed", "bytes", "still live"});
  for (std::size_t i = 0; i < shown; i++) {
    const InheritedReport& inherited = *rows[i]->inherited;
    table.row().text(process_label(*rows[i])).text(rows[i]->parent_pid ? fmt::format("{}", *rows[i]->parent_pid) : "?");
    table.count(inherited.blocks_at_fork).bytes(inherited.bytes_at_fork).count(inherited.frees).bytes(inherited.bytes_freed);
    table.bytes(inherited.live_bytes);
  }
}

void write_named_threads(Html& html, const MergedReport& merged) {
  const std::size_t shown = std::min(kRows, merged.threads.size());
  write_heading(html, counted("Threads by name", shown, merged.threads.size()));
  HtmlTable table(html, {"", "threads", "processes", "allocations", "bytes", "live", "freed by others"});
  for (std::size_t i = 0; i < shown; i++) {
    const NamedThreads& thread = merged.threads[i];
    table.row().text(thread.name.empty() ? "(no name)" : thread.name).count(thread.threads).count(thread.processes);
    table.count(thread.allocations).bytes(thread.bytes_allocated).bytes(thread.live_bytes).count(thread.freed_by_others);
  }
}

}  // namespace

std::string merged_html(const MergedReport& merged) {
  Html html;
  begin_page(html, "heapspy: " + merged.path);
  html.element("h1", merged.path);
  for (const std::string& paragraph : merged_head_texts(merged)) html.element("p", paragraph);
  write_processes(html, merged);
  write_inherited(html, merged);
  if (merged.findings.empty()) write_findings(html, "What this means", {});
  if (merged.findings.empty()) html.element("p", "Nothing stands out in any process.");
  for (const ProcessFindings& of : merged.findings)
    write_findings(html, "What this means for " + process_label(merged.processes[of.process]), of.findings);
  if (!merged.stacks.sites.empty()) {
    const Report& stacks = merged.stacks;
    write_sites(html, "Sites " + moment_of_rss_text(stacks.at), stacks.sites, stacks.sites_left_out, nullptr);
    for (const TreeOrder order : {TreeOrder::down, TreeOrder::up})
      write_tree(html, stacks.sites, order, tree_title(stacks, order));
  }
  write_named_threads(html, merged);
  write_sizes(html, merged.sizes);
  write_lifetimes(html, merged.lifetimes);
  end_page(html);
  return html.written();
}

}  // namespace heapspy::report
