// Of a JVM: which libraries called malloc, and what kind of threads.
#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/labels.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

Lines table_lines(Table& table, const Screen& screen) {
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  return lines;
}

}  // namespace

Lines java_lines(const Report& report, const Screen& screen, std::size_t top) {
  if (!report.java) return {};
  const JavaReport& java = *report.java;
  Lines lines;
  if (!java.callers.empty()) {
    const std::size_t shown = std::min(top, java.callers.size());
    Table table({fmt::format("Malloc by library {}", moment_of_rss_text(report.at)), "live", "blocks", "at the end",
                 "allocated", "calls"});
    for (std::size_t i = 0; i < shown; i++) {
      const CallerReport& caller = java.callers[i];
      table.add({"  " + caller_label(caller), bytes_or_unknown(caller.live_bytes),
                 caller.live_blocks ? findings::count_text(*caller.live_blocks) : "?",
                 findings::bytes_text(caller.end_live_bytes), findings::bytes_text(caller.bytes),
                 findings::count_text(caller.allocations)});
    }
    lines = table_lines(table, screen);
    if (shown < java.callers.size()) lines.push_back(fmt::format("  and {} more", java.callers.size() - shown));
    lines.emplace_back();
  }
  Table roles({"Threads by role", "threads", "allocations", "bytes", "live at the end"});
  for (const RoleReport& role : java.roles)
    roles.add({"  " + role_label(role), findings::count_text(role.threads), findings::count_text(role.allocations),
               findings::bytes_text(role.bytes_allocated), bytes_or_unknown(role.live_bytes)});
  for (std::string& line : table_lines(roles, screen)) lines.push_back(std::move(line));
  return lines;
}

Lines java_thread_lines(const Report& report, const Screen& screen, std::size_t top) {
  if (!report.java) return {};
  std::vector<const ThreadReport*> threads;
  for (const ThreadReport& thread : report.threads)
    if (thread.daemon) threads.push_back(&thread);
  if (threads.empty()) return {};
  std::stable_sort(threads.begin(), threads.end(),
                   [](const ThreadReport* a, const ThreadReport* b) { return a->bytes_allocated > b->bytes_allocated; });
  const std::size_t shown = std::min(top, threads.size());
  Table table({"Java's threads", "group", "daemon"});
  for (const std::size_t column : {1, 2}) table.align_left(column);
  Lines renamed;
  for (std::size_t i = 0; i < shown; i++) {
    const ThreadReport& thread = *threads[i];
    table.add({"  " + thread_label(thread), group_label(thread), daemon_label(thread)});
    const std::string names = names_label(thread);
    if (!names.empty()) renamed.push_back(fmt::format("tid {}: {}", thread.tid, names));
  }
  Lines lines = table_lines(table, screen);
  if (shown < threads.size()) lines.push_back(fmt::format("  and {} more", threads.size() - shown));
  if (renamed.empty()) return lines;
  lines.emplace_back();
  lines.push_back(heading("Renamed: names, and since when", screen));
  for (const std::string& each : renamed)
    for (const std::string& line : wrap(each, kWidth - 2)) lines.push_back("  " + line);
  return lines;
}

}  // namespace heapspy::report
