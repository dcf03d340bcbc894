#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/drawing.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kBar = 12;
constexpr double kNear = 1.01;  // a snapshot this close to the kernel's high-water mark is the peak

std::optional<std::uint64_t> part_bytes(const RssReport& rss, const std::string& name) {
  for (const PartReport& part : rss.parts)
    if (part.name == name) return part.bytes;
  return std::nullopt;
}

// By a tenth, and enough to matter.
bool has_moved(std::uint64_t before, std::uint64_t after) {
  const std::uint64_t change = before > after ? before - after : after - before;
  return change >= (1 << 20) && change > std::max(before, after) / 10;
}

// What recording took, under the ledger. Nothing of a trace that does not say.
std::optional<std::string> recorder_text(const Report& report) {
  const RecorderReport& recorder = report.recorder;
  if (!recorder.measured_s) return std::nullopt;
  std::string text = fmt::format("heapspy itself: {} dirty; {} to begin, append and take snapshots (measured), ",
                                 bytes_or_unknown(recorder.dirty_bytes), findings::seconds_text(*recorder.measured_s));
  text += recorder.predicted_s ? fmt::format("{} in the program's calls (predicted: {} events × {:.1f} ns)",
                                             findings::seconds_text(*recorder.predicted_s),
                                             findings::count_text(report.trace.events), *recorder.ns_per_event)
                               : "? in the program's calls";
  return text;
}

// What glibc's own counters would still call free.
std::optional<std::string> not_resident_text(const Report& report) {
  constexpr std::uint64_t kWorth = 16 << 20;
  const Bytes gone = not_resident(report.arenas_at_end), trimmable = trim_prediction(report.arenas_at_end);
  if (!gone || !trimmable || *gone < kWorth) return std::nullopt;
  return fmt::format(
      "at the end {} of the heaps' address space are not in RAM (trimmed, or never touched), whatever malloc_info "
      "and mallinfo2 call free; malloc_trim(0) would return {} (predicted)",
      findings::bytes_text(*gone), findings::bytes_text(*trimmable));
}

// Residency is known at snapshots only, live memory always.
std::optional<std::string> asked_text(const MomentReport& at) {
  if (!at.asked_s || !at.time_s || findings::seconds_text(*at.asked_s) == findings::seconds_text(*at.time_s))
    return std::nullopt;
  return fmt::format("(no snapshot at {}: this is the last one before it{})", findings::seconds_text(*at.asked_s),
                     at.live_at_asked_bytes && at.live_bytes
                         ? fmt::format("; live memory went from {} to {} until then", findings::bytes_text(*at.live_bytes),
                                       findings::bytes_text(*at.live_at_asked_bytes))
                         : "");
}

}  // namespace

bool end_is_unseen(const Report& report) {
  return report.end_at.last_snapshot && report.end_at.live_bytes && report.totals.live_bytes &&
         has_moved(*report.end_at.live_bytes, *report.totals.live_bytes);
}

Lines ledger_notes(const Report& report) {
  const RssReport& rss = report.rss;
  Lines notes;
  if (!rss.total_bytes && report.at.asked_s && report.rss_at_end.total_bytes)
    notes.push_back(
        fmt::format("RSS is not known at {}: the first snapshot came later.", findings::seconds_text(*report.at.asked_s)));
  else if (!rss.total_bytes)
    notes.emplace_back(kNoRss);
  else if (auto earlier = asked_text(report.at))
    notes.push_back(std::move(*earlier));
  if (rss.total_bytes && report.at.why == "peak" && report.process.peak_rss_bytes &&
      static_cast<double>(*report.process.peak_rss_bytes) > kNear * static_cast<double>(*rss.total_bytes))
    notes.push_back(fmt::format("(between snapshots RSS was {} once: the kernel's high-water mark)",
                                findings::bytes_text(*report.process.peak_rss_bytes)));
  if (rss.total_bytes && end_is_unseen(report))
    notes.push_back(fmt::format(
        "(RSS is known at snapshots only; after the last one, at {}, live memory went from {} to {}, and what follows about "
        "free memory is as of then; HEAPSPY_SNAPSHOT=peak,exit,every=10s takes more, and `heapspy snapshot PID` one)",
        findings::seconds_text(report.end_at.time_s.value_or(0)), findings::bytes_text(*report.end_at.live_bytes),
        findings::bytes_text(*report.totals.live_bytes)));
  if (auto gone = not_resident_text(report)) notes.push_back(std::move(*gone));
  if (auto recorder = recorder_text(report)) notes.push_back(std::move(*recorder));
  for (const std::string& note : rss.notes) notes.push_back("Note: " + fit(printable(note), 300));
  return notes;
}

bool shows_both_moments(const Report& report) {
  return report.rss_at_end.total_bytes && report.at.why != "end" && !at_is_end(report);
}

// The ledger at the moment of the report and at the end, side by side; parts that are 0 in both are left out.
Lines ledger_lines(const Report& report, const Screen& screen) {
  const RssReport& rss = report.rss;
  const RssReport& end = report.rss_at_end;
  if (!rss.total_bytes) {
    Lines lines;
    for (const std::string& note : ledger_notes(report))
      for (const std::string& line : wrap(note, kWidth - 2))
        lines.push_back((note.starts_with("RSS is not known") ? "" : "  ") + line);
    return lines;
  }
  const bool both = shows_both_moments(report);

  std::vector<std::string> headings = {"RSS", moments_text(report), ""};
  std::vector<std::string> total = {"  total", findings::bytes_text(*rss.total_bytes), ""};
  if (both) {
    headings.insert(headings.end(), {moment_text(report.end_at), ""});
    total.insert(total.end(), {findings::bytes_text(*end.total_bytes), ""});
  }
  if (screen.terminal) headings.emplace_back("");
  Table table(headings);
  if (screen.terminal) table.align_left(headings.size() - 1);
  table.add(total);

  std::vector<std::string> names;
  for (const PartReport& part : rss.parts) names.push_back(part.name);
  for (const PartReport& part : end.parts)
    if (std::find(names.begin(), names.end(), part.name) == names.end()) names.push_back(part.name);
  std::uint64_t most = 0;
  for (const PartReport& part : rss.parts) most = std::max(most, part.bytes);
  for (const std::string& name : names) {
    const std::uint64_t here = part_bytes(rss, name).value_or(0);
    const std::uint64_t there = both ? part_bytes(end, name).value_or(0) : 0;
    if (here == 0 && there == 0) continue;
    std::vector<std::string> row = {"    " + printable(name), findings::bytes_text(here),
                                    findings::percent_text(here, *rss.total_bytes)};
    if (both) {
      row.push_back(findings::bytes_text(there));
      row.push_back(findings::percent_text(there, *end.total_bytes));
    }
    if (screen.terminal) row.push_back(bar(most ? static_cast<double>(here) / static_cast<double>(most) : 0, kBar));
    table.add(std::move(row));
  }
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  for (const std::string& note : ledger_notes(report))
    for (const std::string& line : wrap(note, kWidth - 2)) lines.push_back("  " + line);
  return lines;
}

}  // namespace heapspy::report
