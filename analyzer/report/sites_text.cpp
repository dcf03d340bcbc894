#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/labels.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/site_frames.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kCallers = 4;  // shown below a site
constexpr std::size_t kRanked = 5;   // rows of the further rankings

constexpr const char* kNoStack = "(call stack not known)";

using Sites = std::vector<const SiteReport*>;

Sites sorted(const Report& report, std::uint64_t (*figure)(const SiteReport&)) {
  Sites sites;
  for (const SiteReport& site : report.sites)
    if (figure(site)) sites.push_back(&site);
  std::stable_sort(sites.begin(), sites.end(),
                   [&](const SiteReport* a, const SiteReport* b) { return figure(*a) > figure(*b); });
  return sites;
}

// The frames further out; those of standard libraries as one.
Lines caller_lines(const SiteReport& site) {
  Lines lines;
  std::size_t folded = 0, shown = 0;
  for (std::size_t i = telling_frame(site.frames) + 1; i < site.frames.size(); i++) {
    if (is_plumbing(site.frames[i])) {
      folded++;
      continue;
    }
    if (shown++ == kCallers) {
      lines.push_back(fmt::format("       … {} more", site.frames.size() - i));
      return lines;
    }
    lines.push_back(fit("       from " + frame_text(site.frames[i]), kWidth));
  }
  if (site.stack_end == "depth") lines.emplace_back("       … deeper than HEAPSPY_DEPTH");
  if (site.stack_end == "no rule" || site.stack_end == "bad stack" || site.stack_end == "unknown")
    lines.emplace_back("       … what called this is not known");
  return lines;
}

Lines entry_lines(const Report& report, const SiteReport& site, std::size_t number, const Screen& screen) {
  Lines lines = {heading(fit(fmt::format("{:3}  ", number) + site_label(site), kWidth), screen)};
  std::vector<std::string> parts;
  if (site.live_blocks.value_or(1) > 0)
    parts.push_back(fmt::format("{} live in {}", bytes_or_unknown(site.live_bytes),
                                site.live_blocks ? findings::plural_text(*site.live_blocks, "block", "blocks") : "? blocks"));
  else
    parts.emplace_back("none live");
  parts.push_back(fmt::format("{} when most was live", bytes_or_unknown(site.peak_bytes)));
  parts.push_back(fmt::format("{} by {}", findings::bytes_text(site.bytes),
                              findings::plural_text(site.allocations + site.reallocations, "call", "calls")));
  if (site.temporary.value_or(0)) parts.push_back(temporary_label(site) + " temporary");
  if (site.pinned_bytes.value_or(0)) parts.push_back("pins " + findings::bytes_text(*site.pinned_bytes));
  if (site.processes) parts.push_back("in " + findings::plural_text(*site.processes, "process", "processes"));
  if (!site.threads.empty()) parts.push_back(threads_label(report, site));
  std::string line = "      ";
  for (const std::string& part : parts) {
    if (line.size() > 7 && columns(line) + columns(part) + 3 > kWidth) lines.push_back(std::exchange(line, "      "));
    line += (line.size() > 7 ? " · " : " ") + part;
  }
  lines.push_back(fit(line, kWidth));
  for (std::string& caller : caller_lines(site)) lines.push_back(std::move(caller));
  return lines;
}

Lines ranking(const Report& report, const Screen& screen, std::vector<std::string> headings,
              std::uint64_t (*figure)(const SiteReport&), std::vector<std::string> (*cells)(const SiteReport&)) {
  const Sites sites = sorted(report, figure);
  if (sites.empty()) return {};
  Table table(std::move(headings));
  for (std::size_t i = 0; i < std::min(kRanked, sites.size()); i++) {
    std::vector<std::string> row = {"  " + site_label(*sites[i])};
    for (std::string& cell : cells(*sites[i])) row.push_back(std::move(cell));
    table.add(std::move(row));
  }
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  return lines;
}

void append(Lines& lines, Lines more) {
  if (more.empty()) return;
  lines.emplace_back();
  for (std::string& line : more) lines.push_back(std::move(line));
}

}  // namespace

Lines site_lines(const Report& report, const Screen& screen, std::size_t top, bool in_full) {
  if (report.sites.empty()) {
    if (!in_full) return {};
    if (report.trace.stacks == "none")
      return {"No call stacks were recorded. Record with HEAPSPY_STACKS=auto (heapspy record --stacks auto)."};
    return {"No call stack passes what was asked for."};
  }
  const std::size_t all = report.sites.size() + report.sites_left_out;
  const std::size_t shown = std::min(top, report.sites.size());
  Lines lines;
  if (in_full && !report.site_scope.empty()) {
    lines.push_back("Only " + printable(report.site_scope) + ".");
    lines.emplace_back();
  }
  const std::string title = fmt::format("Sites {} ({} of {})", moment_of_rss_text(report.at), shown, findings::count_text(all));
  if (!in_full) {
    Table table({title, "live", "blocks", "peak", "allocated"});
    for (std::size_t i = 0; i < shown; i++) {
      const SiteReport& site = report.sites[i];
      table.add({"  " + site_label(site), bytes_or_unknown(site.live_bytes),
                 site.live_blocks ? findings::count_text(*site.live_blocks) : "?", bytes_or_unknown(site.peak_bytes),
                 findings::bytes_text(site.bytes)});
    }
    lines = table.lines(kWidth);
    lines[0] = heading(lines[0], screen);
    return lines;
  }
  lines.push_back(heading(title, screen));
  for (std::size_t i = 0; i < shown; i++)
    for (std::string& line : entry_lines(report, report.sites[i], i + 1, screen)) lines.push_back(std::move(line));
  append(lines, ranking(
                    report, screen, {"Who allocates most", "allocated", "calls", "temp.", "mean life"},
                    [](const SiteReport& site) { return site.bytes; },
                    [](const SiteReport& site) -> std::vector<std::string> {
                      return {findings::bytes_text(site.bytes), findings::count_text(site.allocations + site.reallocations),
                              temporary_label(site),
                              site.mean_lifetime_s ? findings::seconds_text(*site.mean_lifetime_s) : "-"};
                    }));
  append(lines, ranking(
                    report, screen, {"Left at the end", "bytes", "blocks", "of the last 12 %", "never freed"},
                    [](const SiteReport& site) { return site.suppressed ? 0 : site.end_live_bytes.value_or(0); },
                    [](const SiteReport& site) -> std::vector<std::string> {
                      return {bytes_or_unknown(site.end_live_bytes), findings::count_text(site.end_live_blocks.value_or(0)),
                              site.survivors.empty() ? "?" : findings::bytes_text(site.survivors.back()),
                              findings::percent_text(site.end_live_blocks.value_or(0),
                                                     site.ended_blocks + site.end_live_blocks.value_or(0))};
                    }));
  append(lines, ranking(
                    report, screen, {"Who pins free memory", "pinned", "live", "blocks"},
                    [](const SiteReport& site) { return site.pinned_bytes.value_or(0); },
                    [](const SiteReport& site) -> std::vector<std::string> {
                      return {bytes_or_unknown(site.pinned_bytes), bytes_or_unknown(site.live_bytes),
                              findings::count_text(site.live_blocks.value_or(0))};
                    }));
  append(lines, ranking(
                    report, screen, {"What realloc carries over", "at most", "moved", "for what became", "reallocs"},
                    [](const SiteReport& site) { return site.copied_bytes; },
                    [](const SiteReport& site) -> std::vector<std::string> {
                      return {findings::bytes_text(site.copied_bytes), findings::bytes_text(site.moved_bytes),
                              findings::bytes_text(std::max(site.final_bytes, site.largest_bytes)),
                              findings::count_text(site.reallocations)};
                    }));
  append(lines, symbol_lines(report));
  return lines;
}

Lines symbol_lines(const Report& report) {
  Lines lines;
  for (const ModuleReport& module : report.modules) {
    const std::string name = printable(module.path.substr(module.path.rfind('/') + 1));
    if (name.starts_with("linux-vdso")) continue;
    if (module.state == "changed")
      lines.push_back(
          fmt::format("  {}: the file has changed since it was recorded; give the old one with --extra-paths", name));
    else if (module.state == "missing")
      lines.push_back(fmt::format("  {}: not found; give --sysroot or --extra-paths", name));
    else if (!module.debug_info)
      lines.push_back(fmt::format(
          "  {}: no debug information, so no lines; give its debug file with --extra-paths, or --debuginfod", name));
  }
  if (!lines.empty()) lines.insert(lines.begin(), "Symbols");
  return lines;
}

Lines module_table_lines(const Report& report, const Screen& screen, std::size_t top) {
  struct Sum {
    std::uint64_t live = 0, peak = 0, bytes = 0, calls = 0, pinned = 0, sites = 0;
  };
  if (report.sites.empty()) return site_lines(report, screen, top, true);
  std::map<std::string, Sum> sums;
  for (const SiteReport& site : report.sites) {
    const std::string module = site.frames.empty() ? kNoStack : site.frames[telling_frame(site.frames)].module.str();
    Sum& sum = sums[module.empty() ? "(code made at run time)" : module];
    sum.live += site.live_bytes.value_or(0);
    sum.peak += site.peak_bytes.value_or(0);
    sum.bytes += site.bytes;
    sum.calls += site.allocations + site.reallocations;
    sum.pinned += site.pinned_bytes.value_or(0);
    sum.sites++;
  }
  std::vector<std::pair<std::string, Sum>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.live != b.second.live ? a.second.live > b.second.live : a.second.bytes > b.second.bytes;
  });
  const std::size_t shown = std::min(top, rows.size());
  Table table({fmt::format("Modules {} ({} of {})", moment_of_rss_text(report.at), shown, rows.size()), "live", "peak",
               "allocated", "calls", "pinned", "sites"});
  for (std::size_t i = 0; i < shown; i++) {
    const Sum& sum = rows[i].second;
    table.add({"  " + printable(rows[i].first.substr(rows[i].first.rfind('/') + 1)), findings::bytes_text(sum.live),
               findings::bytes_text(sum.peak), findings::bytes_text(sum.bytes), findings::count_text(sum.calls),
               findings::bytes_text(sum.pinned), findings::count_text(sum.sites)});
  }
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  return lines;
}

}  // namespace heapspy::report
