#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/drawing.h"
#include "analyzer/report/labels.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kBar = 8;

}  // namespace

Lines size_lines(const Report& report, const Screen& screen, std::size_t top) {
  std::vector<const SizeReport*> sizes;
  for (const SizeReport& size : report.sizes) sizes.push_back(&size);
  const std::size_t shown = std::min(top, sizes.size());
  // Those with most bytes, then in the order of size.
  std::stable_sort(sizes.begin(), sizes.end(), [](const SizeReport* a, const SizeReport* b) { return a->bytes > b->bytes; });
  sizes.resize(shown);
  std::sort(sizes.begin(), sizes.end(), [](const SizeReport* a, const SizeReport* b) { return a->from < b->from; });
  std::uint64_t most = 0;
  for (const SizeReport* size : sizes) most = std::max(most, size->allocations);
  std::vector<std::string> headings = {
      shown == report.sizes.size() ? "Sizes" : fmt::format("Sizes ({}/{})", shown, report.sizes.size()), "allocations", "bytes",
      "live"};
  if (screen.terminal) headings.emplace_back("");
  Table table(headings);
  if (screen.terminal) table.align_left(headings.size() - 1);
  for (const SizeReport* size : sizes) {
    std::vector<std::string> row = {"  " + size_label(*size), findings::count_text(size->allocations),
                                    findings::bytes_text(size->bytes), bytes_or_unknown(size->live_bytes)};
    if (screen.terminal)
      row.push_back(bar(most ? static_cast<double>(size->allocations) / static_cast<double>(most) : 0, kBar));
    table.add(std::move(row));
  }
  return table.lines(kWidth);
}

Lines lifetime_lines(const Report& report, std::size_t top) {
  std::uint64_t all = 0;
  std::vector<const LifetimeReport*> rows;
  for (const LifetimeReport& life : report.lifetimes) {
    all += life.blocks;
    if (life.blocks) rows.push_back(&life);
  }
  if (rows.empty()) return {};
  const std::size_t shown = std::min(top, rows.size());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const LifetimeReport* a, const LifetimeReport* b) { return a->blocks > b->blocks; });
  rows.resize(shown);
  std::sort(rows.begin(), rows.end(), [](const LifetimeReport* a, const LifetimeReport* b) { return a->from_s < b->from_s; });
  Table table({"Lifetimes", "blocks", "", "bytes"});
  for (const LifetimeReport* life : rows)
    table.add({"  " + lifetime_label(*life), findings::count_text(life->blocks), findings::percent_text(life->blocks, all),
               findings::bytes_text(life->bytes)});
  return table.lines(kWidth);
}

}  // namespace heapspy::report
