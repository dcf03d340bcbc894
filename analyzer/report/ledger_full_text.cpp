// `report --ledger`: every piece of every part, what is beside RSS, who pins, and the ledger over time.
#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kNameWidth = 60, kWhereWidth = 50;

void append(Lines& lines, Lines more, const Screen& screen) {
  if (more.empty()) return;
  if (!lines.empty()) lines.emplace_back();
  more[0] = heading(more[0], screen);
  lines.insert(lines.end(), more.begin(), more.end());
}

Lines parts_lines(const Report& report) {
  const RssReport& rss = report.rss;
  Table table({"RSS " + moment_text(report.at), "", ""});
  table.add({"  total", findings::bytes_text(*rss.total_bytes), ""});
  for (const PartReport& part : rss.parts) {
    if (!part.bytes) continue;
    table.add({"    " + printable(part.name), findings::bytes_text(part.bytes),
               findings::percent_text(part.bytes, *rss.total_bytes)});
    for (const DetailReport& detail : part.details)
      table.add({"      " + fit(printable(detail.name), kNameWidth), findings::bytes_text(detail.bytes),
                 findings::percent_text(detail.bytes, *rss.total_bytes)});
  }
  return table.lines(kWidth);
}

// Whole mappings; what is beside RSS and what the cgroup counts.
Lines mappings_lines(const RssReport& rss) {
  Table table({"By mapping", "mappings", "RSS", "swap", "huge pages"});
  for (const GroupReport& group : rss.groups)
    table.add({"  " + printable(group.name), findings::count_text(group.mappings), findings::bytes_text(group.bytes),
               findings::bytes_text(group.swap_bytes), findings::bytes_text(group.huge_bytes)});
  Lines lines = table.lines(kWidth);
  lines.push_back(fmt::format("  beside RSS: page tables {}, swap {}", bytes_or_unknown(rss.page_table_bytes),
                              bytes_or_unknown(rss.swap_bytes)));
  if (!rss.cgroup) return lines;
  const CgroupReport& cgroup = *rss.cgroup;
  for (const std::string& line : wrap(
           fmt::format("its cgroup counts {} (limit {}), {} beyond this RSS; in all, anonymous {}, page cache {}, of it shared "
                       "memory {}, kernel {}",
                       bytes_or_unknown(cgroup.current_bytes),
                       cgroup.limit_bytes ? findings::bytes_text(*cgroup.limit_bytes) : std::string("none"),
                       bytes_or_unknown(cgroup.beyond_rss_bytes), bytes_or_unknown(cgroup.anonymous_bytes),
                       bytes_or_unknown(cgroup.file_bytes), bytes_or_unknown(cgroup.shared_bytes),
                       bytes_or_unknown(cgroup.kernel_bytes)),
           kWidth - 2))
    lines.push_back("  " + line);
  return lines;
}

Lines trim_lines(const Report& report) {
  const Bytes prediction = trim_prediction(report.arenas);
  if (!prediction) return {};
  std::uint64_t live = 0, pinned = 0, cached = 0;
  for (const ArenaReport& arena : report.arenas) {
    if (arena.kind != "main" && arena.kind != "secondary") continue;
    live += arena.live_bytes.value_or(0);
    pinned += arena.pinned_bytes.value_or(0);
    cached += arena.cached_bytes.value_or(0);
  }
  Lines lines = {fmt::format("Trim: malloc_trim(0) would return {} (predicted)", findings::bytes_text(*prediction))};
  lines.push_back(fmt::format("  what stays of the heaps: live {}, pinned {}, thread caches and tops {}",
                              findings::bytes_text(live), findings::bytes_text(pinned), findings::bytes_text(cached)));
  lines.push_back(
      fmt::format("  address space of the heaps that is not resident: {}", bytes_or_unknown(not_resident(report.arenas))));
  return lines;
}

std::string size_range(const PinsReport::Row& row) {
  const auto bytes = [](double value) { return findings::bytes_text(static_cast<std::uint64_t>(value)); };
  return row.to ? "below " + bytes(*row.to) : bytes(row.from) + " and more";
}

Lines pins_lines(const Report& report) {
  const PinsReport& pins = report.pins;
  if (!pins.bytes || !*pins.bytes) return {};
  Lines lines = {fmt::format("Pinned {}: {}", moment_text(report.at), findings::bytes_text(*pins.bytes))};
  const auto add = [&](const Table& table) {
    for (std::string& line : table.lines(kWidth)) lines.push_back(std::move(line));
  };
  if (!pins.let_go.empty()) {
    Table table({"  if these sites let go of their blocks, together", "blocks", "live", "leaves"});
    for (const PinsReport::LetGo& each : pins.let_go)
      table.add({"    " + fit(each.where.empty() ? fmt::format("site {}", each.site) : printable(each.where), kWhereWidth),
                 findings::count_text(each.blocks), findings::bytes_text(each.live_bytes),
                 findings::bytes_text(each.returned_bytes)});
    add(table);
  }
  Table sizes({"  by size of the block", "blocks", "pinned"});
  for (const PinsReport::Row& row : pins.sizes)
    sizes.add({"    " + size_range(row), findings::count_text(row.blocks), findings::bytes_text(row.bytes)});
  add(sizes);
  Table ages({"  by when it was allocated", "blocks", "pinned"});
  for (const PinsReport::Row& row : pins.ages)
    ages.add({fmt::format("    {} to {}", findings::seconds_text(row.from), findings::seconds_text(row.to.value_or(row.from))),
              findings::count_text(row.blocks), findings::bytes_text(row.bytes)});
  add(ages);
  Table blocks({"  blocks that pin most", "size", "pinned", "age", ""});
  blocks.align_left(4);
  for (const PinsReport::Block& block : pins.blocks)
    blocks.add({fmt::format("    0x{:x}", block.address), findings::bytes_text(block.size), findings::bytes_text(block.bytes),
                block.age_s ? findings::seconds_text(*block.age_s) : "?", fit(printable(block.where), kWhereWidth)});
  add(blocks);
  return lines;
}

// The largest parts as columns.
Lines over_time_lines(const Report& report, std::size_t top) {
  constexpr std::size_t kColumns = 5;
  const auto& all = report.ledgers;
  if (all.size() < 2) return {};
  std::vector<std::pair<std::string, std::uint64_t>> names;
  for (const LedgerReport& ledger : all)
    for (const PartReport& part : ledger.parts) {
      auto at = std::find_if(names.begin(), names.end(), [&](const auto& each) { return each.first == part.name; });
      if (at == names.end()) at = names.insert(names.end(), {part.name, 0});
      at->second = std::max(at->second, part.bytes);
    }
  std::stable_sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (names.size() > kColumns) names.resize(kColumns);
  std::vector<std::string> headings = {"Ledger over time", "RSS"};
  for (const auto& [name, most] : names) {
    const std::size_t colon = name.rfind(", ");
    headings.push_back(fit(printable(colon == std::string::npos ? name : name.substr(colon + 2)), 16));
  }
  Table table(headings);
  const std::size_t shown = std::min(top, all.size());
  for (std::size_t row = 0; row < shown; row++) {
    const LedgerReport& ledger = all[shown == 1 ? all.size() - 1 : row * (all.size() - 1) / (shown - 1)];
    std::vector<std::string> cells = {fmt::format("  {:.3f} s", ledger.time_s), findings::bytes_text(ledger.total_bytes)};
    for (const auto& [name, most] : names) {
      std::uint64_t bytes = 0;
      for (const PartReport& part : ledger.parts)
        if (part.name == name) bytes = part.bytes;
      cells.push_back(findings::bytes_text(bytes));
    }
    table.add(std::move(cells));
  }
  return table.lines(kWidth);
}

}  // namespace

Lines full_ledger_lines(const Report& report, const Screen& screen, std::size_t top) {
  if (!report.rss.total_bytes) return ledger_lines(report, screen);
  Lines lines;
  append(lines, parts_lines(report), screen);
  append(lines, mappings_lines(report.rss), screen);
  append(lines, trim_lines(report), screen);
  append(lines, pins_lines(report), screen);
  append(lines, over_time_lines(report, top), screen);
  return lines;
}

}  // namespace heapspy::report
