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

std::uint64_t free_in(const std::vector<ArenaReport>& arenas) {
  std::uint64_t sum = 0;
  for (const ArenaReport& arena : arenas)
    sum += arena.trimmable_bytes.value_or(0) + arena.pinned_bytes.value_or(0) + arena.cached_bytes.value_or(0);
  return sum;
}

}  // namespace

bool arenas_are_of_the_end(const Report& report) {
  return report.at.why == "peak" && free_in(report.arenas_at_end) >= free_in(report.arenas);
}

// The arenas at the moment of the report, or at the end where they hold more free memory then.
Lines arena_lines(const Report& report, const Screen& screen, std::size_t top, bool with_threads) {
  const bool end = arenas_are_of_the_end(report);
  const std::vector<ArenaReport>& all = end ? report.arenas_at_end : report.arenas;
  if (all.empty()) return {};
  std::vector<const ArenaReport*> arenas;
  for (const ArenaReport& arena : all) arenas.push_back(&arena);
  std::stable_sort(arenas.begin(), arenas.end(), [](const ArenaReport* a, const ArenaReport* b) {
    if ((a->kind == "main") != (b->kind == "main")) return a->kind == "main";
    return a->resident_bytes.value_or(a->live_bytes.value_or(0)) > b->resident_bytes.value_or(b->live_bytes.value_or(0));
  });
  const std::size_t shown = std::min(top, arenas.size());
  const std::string when = moment_of_rss_text(end ? report.end_at : report.at);
  const std::string title = shown == arenas.size() ? fmt::format("Arenas ({}) {}", shown, when)
                                                   : fmt::format("Arenas ({} of {}) {}", shown, arenas.size(), when);
  // The title is wider than any arena's name, so it has a line of its own.
  Table table({"", "system", "resident", "live", "trimmable", "pinned", "cached", "plug"});
  table.align_left(7);
  table.give_way(7);
  for (std::size_t i = 0; i < shown; i++) {
    const ArenaReport& arena = *arenas[i];
    table.add({"  " + arena_label(arena), bytes_or_unknown(arena.system_bytes), bytes_or_unknown(arena.resident_bytes),
               bytes_or_unknown(arena.live_bytes), bytes_or_unknown(arena.trimmable_bytes),
               bytes_or_unknown(arena.pinned_bytes), bytes_or_unknown(arena.cached_bytes), plug_label(report, arena)});
  }
  Lines rows = table.lines(kWidth);
  Lines lines = {heading(title, screen)};
  for (std::size_t i = 0; i < rows.size(); i++) {
    lines.push_back(rows[i]);
    if (with_threads && i > 0 && !arenas[i - 1]->threads.empty())
      lines.push_back(fit("      threads: " + threads_label(report, *arenas[i - 1]), kWidth));
  }
  return lines;
}

}  // namespace heapspy::report
