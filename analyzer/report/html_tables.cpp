#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/html_sections.h"
#include "analyzer/report/labels.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/sections.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kRows = 1000;

std::string counted(const char* title, std::size_t shown, std::size_t all) {
  return shown == all ? fmt::format("{} ({})", title, findings::count_text(all))
                      : fmt::format("{} ({} of {})", title, findings::count_text(shown), findings::count_text(all));
}

}  // namespace

void write_threads(Html& html, const Report& report) {
  std::vector<const ThreadReport*> threads;
  for (const ThreadReport& thread : report.threads) threads.push_back(&thread);
  std::stable_sort(threads.begin(), threads.end(),
                   [](const ThreadReport* a, const ThreadReport* b) { return a->bytes_allocated > b->bytes_allocated; });
  const std::size_t shown = std::min(kRows, threads.size());
  write_heading(html, counted("Threads", shown, threads.size()));
  std::vector<std::string> headings = {"", "allocations", "frees", "bytes", "live", "peak", "pinned", "freed by others"};
  const bool java = std::any_of(threads.begin(), threads.end(), [](const ThreadReport* each) { return each->daemon; });
  if (java) headings.insert(headings.end(), {"group", "daemon", "names (since)"});
  HtmlTable table(html, headings, {8, 9, 10});
  for (std::size_t i = 0; i < shown; i++) {
    const ThreadReport& thread = *threads[i];
    table.row().text(thread_label(thread)).count(thread.allocations).count(thread.frees).bytes(thread.bytes_allocated);
    table.bytes(thread.live_bytes).bytes(thread.peak_live_bytes).bytes(thread.pinned_bytes).count(thread.freed_by_others);
    if (java) table.text(group_label(thread)).text(daemon_label(thread)).text(names_label(thread));
  }
}

void write_java(Html& html, const Report& report) {
  if (!report.java) return;
  const JavaReport& java = *report.java;
  if (!java.callers.empty()) {
    const std::size_t shown = std::min(kRows, java.callers.size());
    write_heading(html, counted("Malloc by library", shown, java.callers.size()) + " " + moment_of_rss_text(report.at));
    HtmlTable table(html, {"", "live", "blocks", "at the end", "allocated", "calls"});
    for (std::size_t i = 0; i < shown; i++) {
      const CallerReport& caller = java.callers[i];
      table.row().text(caller_label(caller)).bytes(caller.live_bytes).count(caller.live_blocks);
      table.bytes(caller.end_live_bytes).bytes(caller.bytes).count(caller.allocations);
    }
  }
  write_heading(html, "Threads by role");
  HtmlTable table(html, {"", "threads", "allocations", "bytes", "live at the end"});
  for (const RoleReport& role : java.roles)
    table.row()
        .text(role_label(role))
        .count(role.threads)
        .count(role.allocations)
        .bytes(role.bytes_allocated)
        .bytes(role.live_bytes);
}

void write_arenas(Html& html, const Report& report) {
  const bool end = arenas_are_of_the_end(report);
  const std::vector<ArenaReport>& all = end ? report.arenas_at_end : report.arenas;
  if (all.empty()) return;
  const std::size_t shown = std::min(kRows, all.size());
  write_heading(html, counted("Arenas", shown, all.size()) + " " + moment_of_rss_text(end ? report.end_at : report.at));
  HtmlTable table(html, {"", "system", "resident", "live", "blocks", "trimmable", "pinned", "cached", "plug", "threads"},
                  {8, 9});
  for (std::size_t i = 0; i < shown; i++) {
    const ArenaReport& arena = all[i];
    table.row().text(arena_label(arena)).bytes(arena.system_bytes).bytes(arena.resident_bytes).bytes(arena.live_bytes);
    table.count(arena.live_blocks).bytes(arena.trimmable_bytes).bytes(arena.pinned_bytes).bytes(arena.cached_bytes);
    table.text(plug_label(report, arena)).text(threads_label(report, arena));
  }
}

void write_sizes(Html& html, const std::vector<SizeReport>& sizes) {
  if (sizes.empty()) return;
  std::uint64_t most = 0;
  for (const SizeReport& size : sizes) most = std::max(most, size.bytes);
  write_heading(html, "Sizes");
  HtmlTable table(html, {"", "allocations", "bytes", "live blocks", "live", ""}, {5});
  for (const SizeReport& size : sizes) {
    table.row().text(size_label(size)).count(size.allocations).bytes(size.bytes).count(size.live_blocks).bytes(size.live_bytes);
    table.bar(most ? static_cast<double>(size.bytes) / static_cast<double>(most) : 0);
  }
}

void write_lifetimes(Html& html, const std::vector<LifetimeReport>& lifetimes) {
  std::uint64_t all = 0, most = 0;
  for (const LifetimeReport& life : lifetimes) all += life.blocks, most = std::max(most, life.blocks);
  if (all == 0) return;
  write_heading(html, "Lifetimes");
  HtmlTable table(html, {"", "blocks", "", "bytes", ""}, {4});
  for (const LifetimeReport& life : lifetimes) {
    if (!life.blocks) continue;
    table.row().text(lifetime_label(life)).count(life.blocks).text(findings::percent_text(life.blocks, all)).bytes(life.bytes);
    table.bar(static_cast<double>(life.blocks) / static_cast<double>(most));
  }
}

}  // namespace heapspy::report
