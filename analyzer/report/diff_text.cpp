#include "analyzer/report/diff_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/site_frames.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kThreadRows = 8;
constexpr std::size_t kSiteRows = 10;
// Below this a change of a part is noise between two runs of the same program.
constexpr double kNamed = 1 << 20;

std::string figure_text(const std::optional<double>& value, Unit unit) {
  if (!value) return "?";
  switch (unit) {
    case Unit::bytes: return findings::bytes_text(static_cast<std::uint64_t>(std::max(*value, 0.0)));
    case Unit::seconds: return findings::seconds_text(*value);
    default: return findings::count_text(static_cast<std::uint64_t>(std::max(*value, 0.0)));
  }
}

std::string changed_text(const Compared& figure) {
  const auto change = figure.change();
  if (!change) return "?";
  switch (figure.unit) {
    case Unit::bytes: return findings::change_text(std::llround(*change));
    case Unit::seconds: return (*change > 0 ? "+" : *change < 0 ? "-" : "") + findings::seconds_text(std::fabs(*change));
    default: return findings::count_change_text(std::llround(*change));
  }
}

std::string percent_changed(const Compared& figure) {
  const auto change = figure.change();
  if (!change || *figure.before <= 0 || *change == 0) return "";
  const double percent = 100 * *change / *figure.before;
  if (percent >= 1000) return fmt::format("{:.0f}x", *figure.after / *figure.before);
  return std::fabs(percent) < 0.5 ? "<1 %" : fmt::format("{:+.0f} %", percent);
}

void add_row(Table& table, const std::string& name, const Compared& figure) {
  table.add({name, figure_text(figure.before, figure.unit), figure_text(figure.after, figure.unit), changed_text(figure),
             percent_changed(figure)});
}

bool says_something(const Compared& figure) {
  return figure.before.value_or(0) != 0 || figure.after.value_or(0) != 0 || !figure.before != !figure.after;
}

void append(Lines& lines, Lines more, const Screen& screen) {
  if (more.empty()) return;
  if (!lines.empty()) lines.emplace_back();
  more[0] = heading(more[0], screen);
  lines.insert(lines.end(), more.begin(), more.end());
}

void add_side(Lines& lines, const char* label, const Report& report) {
  const std::string command =
      report.process.command.empty() ? printable(report.process.exe) : command_text(report.process.command);
  const std::string facts =
      fmt::format("   pid {} · {} · {}", report.process.pid,
                  report.process.duration_s ? findings::seconds_text(*report.process.duration_s) : "?", ended_text(report));
  const std::string start = fmt::format("{:<8}", label);
  lines.push_back(start + fit(command, kWidth - columns(start) - columns(facts)) + facts);
  for (const std::string& line : loss_lines(report)) lines.push_back("        " + fit(line, kWidth - 8));
}

std::string settings_line(const ComparedSetting& each) {
  const auto text = [](const std::optional<std::string>& value) { return value ? fit(printable(*value), 60) : "not set"; };
  return fit(fmt::format("  {}: {} → {}", printable(each.name), text(each.before), text(each.after)), kWidth);
}

// What changed most among the figures whose path begins with rss.parts (or rss.end.parts).
std::vector<const Compared*> largest_changes(const Diff& diff, const std::vector<std::string>& base) {
  std::vector<const Compared*> parts;
  for (const Compared& each : diff.figures)
    if (each.path.size() == base.size() + 1 && std::equal(base.begin(), base.end(), each.path.begin()) && each.change() &&
        std::fabs(*each.change()) >= kNamed)
      parts.push_back(&each);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Compared* a, const Compared* b) { return std::fabs(*a->change()) > std::fabs(*b->change()); });
  return parts;
}

void conclude(Lines& lines, const Diff& diff, const std::string& when, const std::vector<std::string>& base) {
  std::string path;
  for (const std::string& each : base) path += each + ".";
  const Compared* total = diff.figure(path + "total_bytes");
  if (!total || !total->change()) return;
  const std::string percent = percent_changed(*total);
  std::string text =
      fmt::format("RSS {}: {} → {}, {}{}.", when, figure_text(total->before, Unit::bytes),
                  figure_text(total->after, Unit::bytes), changed_text(*total), percent.empty() ? "" : " (" + percent + ")");
  std::vector<std::string> parts_path = base;
  parts_path.emplace_back("parts");
  const auto parts = largest_changes(diff, parts_path);
  for (std::size_t i = 0; i < parts.size() && i < 3; i++)
    text += fmt::format("{}{} {}", i == 0 ? " Most of it: " : "; ", printable(parts[i]->path.back()), changed_text(*parts[i]));
  if (!parts.empty()) text += ".";
  for (const std::string& line : wrap(text, kWidth - 2)) lines.push_back("  " + line);
}

Lines rss_lines(const Diff& diff, const std::string& title, const std::vector<std::string>& base) {
  Table table({title, "before", "after", "change", ""});
  bool known = false;
  for (const Compared& each : diff.figures) {
    const bool total = each.path.size() == base.size() + 1 && each.path.back() == "total_bytes";
    const bool part = each.path.size() == base.size() + 2 && each.path[base.size()] == "parts";
    if (!(total || part) || !std::equal(base.begin(), base.end(), each.path.begin())) continue;
    if (!each.before && !each.after) continue;
    if (part && !says_something(each)) continue;
    known = true;
    add_row(table, total ? "  total" : "    " + printable(each.path.back()), each);
  }
  return known ? table.lines(kWidth) : Lines{};
}

Lines arena_diff_lines(const Diff& diff, const std::string& title, const std::string& base) {
  static constexpr std::pair<const char*, const char*> kRows[] = {{"main.resident_bytes", "main: resident"},
                                                                  {"main.live_bytes", "main: live"},
                                                                  {"main.trimmable_bytes", "main: trimmable"},
                                                                  {"main.pinned_bytes", "main: pinned"},
                                                                  {"main.cached_bytes", "main: cached"},
                                                                  {"secondary.count", "secondary: how many"},
                                                                  {"secondary.resident_bytes", "secondary: resident"},
                                                                  {"secondary.live_bytes", "secondary: live"},
                                                                  {"secondary.trimmable_bytes", "secondary: trimmable"},
                                                                  {"secondary.pinned_bytes", "secondary: pinned"},
                                                                  {"secondary.cached_bytes", "secondary: cached"},
                                                                  {"mmapped.resident_bytes", "mapped blocks: resident"},
                                                                  {"other.live_bytes", "other: live"}};
  Table table({title, "before", "after", "change", ""});
  bool any = false;
  for (const auto& [path, name] : kRows) {
    const Compared* figure = diff.figure(base + path);
    if (!figure || !says_something(*figure)) continue;
    any = true;
    add_row(table, std::string("  ") + name, *figure);
  }
  return any ? table.lines(kWidth) : Lines{};
}

Lines totals_lines(const Diff& diff) {
  static constexpr std::pair<const char*, const char*> kRows[] = {{"allocations", "allocations"},
                                                                  {"frees", "frees"},
                                                                  {"reallocations", "reallocations"},
                                                                  {"failed", "failed"},
                                                                  {"bytes_allocated", "bytes allocated"},
                                                                  {"peak_live_bytes", "live at most"},
                                                                  {"live_bytes", "live at the end"},
                                                                  {"threads", "threads"},
                                                                  {"duration_s", "duration"}};
  Table table({"Totals", "before", "after", "change", ""});
  for (const auto& [path, name] : kRows)
    if (const Compared* figure = diff.figure(std::string("totals.") + path); figure && says_something(*figure))
      add_row(table, std::string("  ") + name, *figure);
  return table.lines(kWidth);
}

Lines thread_diff_lines(const Diff& diff) {
  const std::size_t shown = std::min(kThreadRows, diff.threads.size());
  if (shown == 0) return {};
  Table table({shown == diff.threads.size()
                   ? "Threads by name, bytes allocated"
                   : fmt::format("Threads by name ({} of {}), bytes allocated", shown, diff.threads.size()),
               "before", "after", "change", "", "threads"});
  for (std::size_t i = 0; i < shown; i++) {
    const ComparedThreads& each = diff.threads[i];
    const Compared &count = each.figures[0], &bytes = each.figures[3];
    table.add({"  " + (each.name.empty() ? "(no name)" : printable(each.name)), figure_text(bytes.before, Unit::bytes),
               figure_text(bytes.after, Unit::bytes), changed_text(bytes), percent_changed(bytes),
               count.before == count.after
                   ? figure_text(count.after, Unit::count)
                   : figure_text(count.before, Unit::count) + " → " + figure_text(count.after, Unit::count)});
  }
  return table.lines(kWidth);
}

std::string vanished_or_new(const ComparedSites& site) {
  const Compared& calls = site.figures[3];
  return calls.before.value_or(0) == 0 ? "new" : calls.after.value_or(0) == 0 ? "vanished" : "";
}

// Those that changed; by bytes allocated where nothing is live that changed.
Lines site_diff_lines(const Diff& diff) {
  const bool live = !diff.sites.empty() && diff.sites[0].figures[0].change().value_or(0) != 0;
  const std::size_t figure = live ? 0 : 2;
  Table table({live ? "Sites, live bytes" : "Sites, bytes allocated", "before", "after", "change", "", ""});
  std::size_t rows = 0;
  for (const ComparedSites& each : diff.sites) {
    if (rows == kSiteRows || each.figures[figure].change().value_or(0) == 0) break;
    const Compared& bytes = each.figures[figure];
    table.add({"  " + site_text(each.frames), figure_text(bytes.before, Unit::bytes), figure_text(bytes.after, Unit::bytes),
               changed_text(bytes), percent_changed(bytes), vanished_or_new(each)});
    rows++;
  }
  return rows ? table.lines(kWidth) : Lines{};
}

// "at its peak (9.8 s and 7.1 s)"
std::string both_moments(const Diff& diff) {
  const auto time = [](const Report& report) { return report.at.time_s ? findings::seconds_text(*report.at.time_s) : "?"; };
  const bool peak = diff.before.at.why == "peak" && diff.after.at.why == "peak";
  return fmt::format("{} ({} and {})", peak ? "at its peak" : "at the end", time(diff.before), time(diff.after));
}

}  // namespace

std::vector<std::string> diff_text(const Diff& diff, const Screen& screen) {
  Lines lines;
  add_side(lines, "before", diff.before);
  add_side(lines, "after", diff.after);
  Lines settings = {diff.settings.empty() ? "Settings: no difference in what bears on memory" : "Set differently"};
  for (const ComparedSetting& each : diff.settings) settings.push_back(settings_line(each));
  append(lines, settings, screen);

  Lines conclusion = {"What changed"};
  const std::string when = both_moments(diff);
  // The snapshot at exit may be the one of highest RSS, in both.
  const bool same = diff.before.at.time_s == diff.before.end_at.time_s && diff.after.at.time_s == diff.after.end_at.time_s;
  conclude(conclusion, diff, when, {"rss"});
  if (!same) conclude(conclusion, diff, "at the end", {"rss", "end"});
  if (const Compared* count = diff.figure("arenas.secondary.count"); count && count->change() && *count->change() != 0) {
    const Compared* resident = diff.figure("arenas.secondary.resident_bytes");
    conclusion.push_back(fmt::format("  Secondary arenas: {} → {}{}.", figure_text(count->before, Unit::count),
                                     figure_text(count->after, Unit::count),
                                     resident && resident->change() ? ", with " + changed_text(*resident) + " resident" : ""));
  }
  if (conclusion.size() == 1) conclusion.emplace_back("  RSS is not known in both: no snapshot in one of the traces.");
  append(lines, conclusion, screen);
  append(lines, rss_lines(diff, "RSS " + when, {"rss"}), screen);
  if (!same) append(lines, rss_lines(diff, "RSS at the end", {"rss", "end"}), screen);
  append(lines, arena_diff_lines(diff, "Arenas then", "arenas."), screen);
  append(lines, totals_lines(diff), screen);
  append(lines, thread_diff_lines(diff), screen);
  append(lines, site_diff_lines(diff), screen);
  return lines;
}

}  // namespace heapspy::report
