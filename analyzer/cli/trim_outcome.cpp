#include "analyzer/cli/trim_outcome.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/json_values.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/report_json.h"
#include "analyzer/report/screen.h"
#include "analyzer/report/table.h"

namespace heapspy::cli {
namespace {

using findings::bytes_text;

std::string bytes_or_unknown(const std::optional<std::uint64_t>& bytes) {
  return bytes ? bytes_text(*bytes) : std::string("?");
}

std::string signed_bytes(const std::optional<std::int64_t>& bytes) {
  if (!bytes) return "?";
  return (*bytes < 0 ? "-" : "") + bytes_text(static_cast<std::uint64_t>(std::llabs(*bytes)));
}

// " (0.3 % less than predicted)"; "" where so little was predicted that a share of it says nothing.
std::string difference(const TrimOutcome& outcome) {
  const auto& predicted = outcome.predicted;
  if (!predicted || !outcome.returned || *predicted < (1u << 20)) return "";
  const double share =
      (static_cast<double>(*outcome.returned) - static_cast<double>(*predicted)) / static_cast<double>(*predicted);
  if (std::fabs(share) < 0.0005) return " (as predicted)";
  return fmt::format(" ({:.1f} % {} than predicted)", std::fabs(share) * 100, share < 0 ? "less" : "more");
}

// Over all arenas; nullopt when not even one is known.
std::optional<std::uint64_t> sum(const TrimOutcome& outcome, TrimmedArena::Bytes TrimmedArena::*member) {
  std::optional<std::uint64_t> total;
  for (const TrimmedArena& arena : outcome.rows)
    if (arena.*member) total = total.value_or(0) + *(arena.*member);
  return total;
}

void print_arenas(const TrimOutcome& outcome) {
  report::Table table(
      {"Arenas before", "system", "resident", outcome.live_as_asked ? "live" : "in use", "trimmable", "pinned", "cached"});
  constexpr std::size_t kRows = 8;
  std::vector<const TrimmedArena*> arenas;
  for (const TrimmedArena& arena : outcome.rows) arenas.push_back(&arena);
  std::stable_sort(arenas.begin(), arenas.end(),
                   [](const auto* a, const auto* b) { return a->trimmable.value_or(0) > b->trimmable.value_or(0); });
  for (std::size_t i = 0; i < std::min(arenas.size(), kRows); i++)
    table.add({arenas[i]->label, bytes_or_unknown(arenas[i]->system), bytes_or_unknown(arenas[i]->resident),
               bytes_or_unknown(arenas[i]->live), bytes_or_unknown(arenas[i]->trimmable), bytes_or_unknown(arenas[i]->pinned),
               bytes_or_unknown(arenas[i]->cached)});
  fmt::print("\n");
  for (const std::string& line : table.lines(report::kWidth)) fmt::print("{}\n", line);
  if (arenas.size() > kRows) fmt::print("and {} more arenas\n", arenas.size() - kRows);
}

void print_what_remains(const TrimOutcome& outcome) {
  fmt::print("\nWhat remains of malloc's memory, and why\n");
  report::Table table({"", "resident", ""});
  table.align_left(2);
  table.add(outcome.live_as_asked ? std::vector<std::string>{"live", bytes_or_unknown(sum(outcome, &TrimmedArena::live)),
                                                             "asked for and not freed (resident or not)"}
                                  : std::vector<std::string>{"in use", bytes_or_unknown(sum(outcome, &TrimmedArena::live)),
                                                             "blocks with headers and rounding (resident or not)"});
  table.add({"pinned", bytes_or_unknown(sum(outcome, &TrimmedArena::pinned)), "free, on pages that hold a live block too"});
  table.add({"cached", bytes_or_unknown(sum(outcome, &TrimmedArena::cached)),
             "free, in thread caches, fast bins and tops of secondary arenas"});
  const std::vector<std::string> lines = table.lines(report::kWidth);
  for (std::size_t i = 1; i < lines.size(); i++) fmt::print("{}\n", lines[i]);
}

}  // namespace

void print_trim_json(const process::LiveProcess& target, const TrimOutcome& outcome, const TrimOptions& options) {
  nlohmann::ordered_json faults;
  if (outcome.faults_after)
    faults = {{"seconds", options.watch_s}, {"minor", outcome.faults_after->minor}, {"major", outcome.faults_after->major}};
  const nlohmann::ordered_json root = {{"schema", "heapspy.trim/1"},
                                       {"pid", target.pid()},
                                       {"method", outcome.method},
                                       {"predicted_bytes", report::maybe(outcome.predicted)},
                                       {"returned_bytes", report::maybe(outcome.returned)},
                                       {"rss_before_bytes", report::maybe(outcome.rss_before)},
                                       {"rss_after_bytes", report::maybe(outcome.rss_after)},
                                       {"rss_source", outcome.rss_source},
                                       {"anonymous_before_bytes", report::maybe(outcome.anonymous_before)},
                                       {"anonymous_after_bytes", report::maybe(outcome.anonymous_after)},
                                       {"duration_s", report::maybe(outcome.duration_s)},
                                       {"madvise_calls", report::maybe(outcome.madvise_calls)},
                                       {"still_s", report::maybe(outcome.still_s)},
                                       {"faults_after", faults},
                                       {"arenas", outcome.arenas}};
  fmt::print("{}", report::dump_json(root));
}

void print_trim_text(const process::LiveProcess& target, const TrimOutcome& outcome, const TrimOptions& options) {
  fmt::print(
      "predicted {}, returned {}{}, took {}{}\n", bytes_or_unknown(outcome.predicted), signed_bytes(outcome.returned),
      difference(outcome), outcome.duration_s ? findings::seconds_text(*outcome.duration_s) : "?",
      outcome.madvise_calls ? ", " + findings::plural_text(*outcome.madvise_calls, "madvise call", "madvise calls") : "");
  fmt::print("{}   pid {}\n", report::fit(report::command_text(target.command()), 80), target.pid());
  if (!outcome.by.empty())
    fmt::print("by {}{}\n", report::printable(outcome.by),
               outcome.still_s ? fmt::format("; all others stood still for {}", findings::seconds_text(*outcome.still_s)) : "");
  fmt::print("RSS {} before, {} after{}\n", bytes_or_unknown(outcome.rss_before), bytes_or_unknown(outcome.rss_after),
             outcome.method == "recorder" && outcome.rss_source == "smaps_rollup"
                 ? " (by /proc, before the request and after the answer)"
                 : "");
  if (outcome.faults_after)
    fmt::print("Page faults in the {} after it: {} minor, {} major\n", findings::seconds_text(options.watch_s),
               findings::count_text(outcome.faults_after->minor), findings::count_text(outcome.faults_after->major));
  if (!outcome.unpredicted.empty()) {
    fmt::print("No prediction: {}\n", report::printable(outcome.unpredicted));
    return;
  }
  print_what_remains(outcome);
  print_arenas(outcome);
}

// Fields 10 and 12 of /proc/PID/stat.
std::optional<PageFaults> page_faults(const process::LiveProcess& target) {
  const std::string stat = target.try_text("stat").value_or("");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 7; i++) fields >> skipped;
  PageFaults faults;
  std::uint64_t of_children = 0;
  if (!(fields >> faults.minor >> of_children >> faults.major)) return std::nullopt;
  return faults;
}

}  // namespace heapspy::cli
