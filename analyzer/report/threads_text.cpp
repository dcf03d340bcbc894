#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/drawing.h"
#include "analyzer/report/labels.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

// Classes of the histogram beside a thread: requests below each limit, and the rest. Limits are powers of two, so that
// each row of the trace's histogram falls into one class.
constexpr std::array<std::uint64_t, 7> kLimits = {32, 128, 512, 2048, 8192, 32768, 131072};
constexpr const char* kClasses[] = {"<32 B", "<128 B", "<512 B", "<2 KiB", "<8 KiB", "<32 KiB", "<128 KiB", "larger"};

std::vector<std::optional<std::uint64_t>> classes(const ThreadReport& thread) {
  std::vector<std::optional<std::uint64_t>> counts(kLimits.size() + 1, 0);
  for (const SizeReport& size : thread.sizes) {
    const auto at = std::upper_bound(kLimits.begin(), kLimits.end(), size.from) - kLimits.begin();
    *counts[static_cast<std::size_t>(at)] += size.allocations;
  }
  return counts;
}

// Estimates say how good they are: in percent where there is little room.
std::string allocations_of(const ThreadReport& thread) {
  return (thread.standard_error ? "≈ " : "") + findings::count_text(thread.allocations);
}
std::string bytes_of(const ThreadReport& thread) {
  std::string bytes = findings::bytes_text(thread.bytes_allocated);
  if (!thread.standard_error || thread.bytes_allocated == 0) return bytes;
  const double percent = 100 * thread.standard_error->bytes_allocated / static_cast<double>(thread.bytes_allocated);
  return fmt::format("≈ {} ± {:.0f} %", bytes, std::ceil(percent));
}
std::string live_of(const ThreadReport& thread) {
  const auto& error = thread.standard_error;
  return error && thread.live_bytes ? bytes_estimate(*thread.live_bytes, error->live_bytes)
                                    : bytes_or_unknown(thread.live_bytes);
}

}  // namespace

Lines thread_lines(const Report& report, const Screen& screen, std::size_t top) {
  std::vector<const ThreadReport*> threads;
  for (const ThreadReport& thread : report.threads) threads.push_back(&thread);
  std::stable_sort(threads.begin(), threads.end(),
                   [](const ThreadReport* a, const ThreadReport* b) { return a->bytes_allocated > b->bytes_allocated; });
  const std::size_t shown = std::min(top, threads.size());
  const std::string count = shown == threads.size()
                                ? fmt::format("Threads ({})", findings::count_text(shown))
                                : fmt::format("Threads ({} of {})", shown, findings::count_text(threads.size()));
  std::vector<std::string> headings = {count, "allocations", "bytes", "live", "peak", "freed by others"};
  if (screen.terminal) headings.emplace_back("sizes");
  Table table(headings);
  if (screen.terminal) table.align_left(headings.size() - 1);
  Table histogram({"Allocations by size", kClasses[0], kClasses[1], kClasses[2], kClasses[3], kClasses[4], kClasses[5],
                   kClasses[6], kClasses[7]});
  for (std::size_t i = 0; i < shown; i++) {
    const ThreadReport& thread = *threads[i];
    std::vector<std::string> row = {
        "  " + thread_label(thread),
        allocations_of(thread),
        bytes_of(thread),
        live_of(thread),
        bytes_or_unknown(thread.peak_live_bytes),
        thread.freed_by_others ? findings::percent_text(*thread.freed_by_others, thread.allocations) : "?"};
    const auto counts = classes(thread);
    if (screen.terminal) row.push_back(sparkline(counts));
    table.add(std::move(row));
    std::vector<std::string> numbers = {"  " + thread_label(thread)};
    for (const auto& each : counts) numbers.push_back(findings::count_text(*each));
    histogram.add(std::move(numbers));
  }
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  if (!screen.terminal && shown > 0)
    for (std::string& line : histogram.lines(kWidth)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace heapspy::report
