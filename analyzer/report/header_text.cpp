#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/trace/mallopt_call.h"

namespace heapspy::report {
namespace {

using findings::count_text;
using findings::seconds_text;

std::size_t arenas_in(const std::vector<ArenaReport>& arenas) {
  return static_cast<std::size_t>(std::count_if(
      arenas.begin(), arenas.end(), [](const ArenaReport& each) { return each.kind == "main" || each.kind == "secondary"; }));
}

std::string joined(const std::vector<std::string>& parts) {
  std::string line;
  for (const std::string& part : parts) line += (line.empty() ? "" : " · ") + part;
  return line;
}

const char* frozen_text(const std::string& by) {
  if (by == "rss") return "RSS reached HEAPSPY_TRIGGER";
  if (by == "cgroup") return "the cgroup's memory reached HEAPSPY_TRIGGER";
  if (by == "signal") return "a signal asked for it";
  if (by == "fail") return "an allocation failed";
  return "it was asked for";
}

// What a mode other than full knows and does not.
Lines mode_texts(const Report& report) {
  const TraceReport& trace = report.trace;
  const TotalsReport& totals = report.totals;
  Lines texts;
  if (trace.ring) {
    const RingReport& ring = *trace.ring;
    std::string text =
        ring.frozen_by ? fmt::format("A copy of a ring, frozen because {}", frozen_text(*ring.frozen_by)) : "A ring";
    if (!ring.from_s)
      text += ": it holds no events.";
    else if (ring.whole)
      text += ": nothing was overwritten yet, so it is as good as a full trace.";
    else
      text += fmt::format(
          ": it holds every event from {} to {}, and some from {} on. Live figures are of blocks allocated in that "
          "span; {} of older ones.",
          seconds_text(*ring.from_s), seconds_text(*ring.to_s), seconds_text(ring.oldest_s.value_or(0)),
          findings::plural_text(totals.before_ring_frees.value_or(0), "free was", "frees were"));
    texts.push_back(std::move(text));
  }
  if (trace.sample) {
    texts.push_back(fmt::format("A sample, of one block in about {}: figures are estimates ± their standard error.",
                                findings::bytes_text(trace.sample->mean_bytes)));
    if (totals.standard_error)
      texts.push_back(fmt::format("{} allocations of {}; live at most {}, at the end {}.",
                                  count_estimate(totals.allocations, totals.standard_error->allocations),
                                  bytes_estimate(totals.bytes_allocated, totals.standard_error->bytes_allocated),
                                  bytes_estimate(totals.peak_live_bytes.value_or(0), totals.standard_error->peak_live_bytes),
                                  bytes_estimate(totals.live_bytes.value_or(0), totals.standard_error->live_bytes)));
    if (trace.sample->lost_blocks > 0)
      texts.push_back(fmt::format("{} found no place among those that are followed: estimates are too low by as many.",
                                  findings::plural_text(trace.sample->lost_blocks, "sampled block", "sampled blocks")));
  }
  if (trace.mode == "count")
    texts.push_back(
        fmt::format("Counters only: {} live at the end; no block is known, so their bytes, peaks, lives and who freed them "
                    "are not.",
                    totals.live_blocks ? findings::plural_text(*totals.live_blocks, "block", "blocks") : "? blocks"));
  return texts;
}

}  // namespace

std::string bytes_estimate(std::uint64_t bytes, double error) {
  return fmt::format("≈ {} ± {}", findings::bytes_text(bytes),
                     findings::bytes_text(static_cast<std::uint64_t>(std::ceil(error))));
}

std::string count_estimate(std::uint64_t count, double error) {
  return fmt::format("≈ {} ± {}", count_text(count), count_text(static_cast<std::uint64_t>(std::ceil(error))));
}

std::string bytes_or_unknown(const Bytes& bytes) { return bytes ? findings::bytes_text(*bytes) : "?"; }

std::string heading(const std::string& line, const Screen& screen) {
  return screen.colour ? "\x1b[1m" + line + "\x1b[0m" : line;
}

std::string ended_text(const Report& report) {
  const std::string& end = report.process.end;
  if (end == "exit") return "ended normally";
  if (end == "running") return "still running";
  if (end == "killed") return "killed, or ended past the recorder";
  if (end.empty()) return "end not known (it was in a sandbox)";
  if (end == "exec") return "replaced itself by another program (exec)";
  return end;
}

std::string facts_text(const Report& report) {
  return joined({fmt::format("pid {}", report.process.pid),
                 (report.process.end == "killed" ? "at least " : "") +
                     (report.process.duration_s ? seconds_text(*report.process.duration_s) : "?"),
                 ended_text(report),
                 fmt::format("{}, {} lost", findings::plural_text(report.trace.events, "event", "events"),
                             count_text(report.trace.lost_events))});
}

std::string trace_text(const Report& report) {
  const TraceReport& trace = report.trace;
  return joined({printable(trace.path), findings::bytes_text(trace.size_bytes), fmt::format("format {}", trace.format_version),
                 "mode " + trace.mode, "clock " + trace.clock, "stacks " + trace.stacks,
                 "started " + printable(report.process.start_time) +
                     (report.process.host.empty() ? "" : " on " + printable(report.process.host))});
}

Lines header_lines(const Report& report) {
  const std::string command =
      report.process.command.empty() ? printable(report.process.exe) : command_text(report.process.command);
  const std::string facts = facts_text(report);
  constexpr std::size_t kGap = 5;
  if (columns(command) + kGap + columns(facts) <= kWidth) return {command + std::string(kGap, ' ') + facts};
  return {fit(command, kWidth), facts};
}

Lines loss_lines(const Report& report) {
  Lines lines;
  const auto add = [&](const std::string& text) {
    for (std::string& line : wrap(text, kWidth)) lines.push_back(std::move(line));
  };
  const TraceReport& trace = report.trace;
  if (trace.lost_events > 0)
    add(fmt::format("Incomplete: {} lost, so counts are too low by as many and blocks may seem alive that were freed.",
                    findings::plural_text(trace.lost_events, "event is", "events are")));
  if (!report.process.front.empty())
    add(fmt::format(
        "{} answers malloc before the recorder: what it does not pass on is not in the trace. Name libheapspy.so first "
        "in LD_PRELOAD.",
        fit(printable(report.process.front), 60)));
  for (const auto& [name, value] : report.process.environment)
    if (name == "GLIBC_TUNABLES" && value.find("glibc.malloc.hugetlb=") != std::string::npos &&
        value.find("glibc.malloc.hugetlb=0") == std::string::npos && value.find("glibc.malloc.hugetlb=1") == std::string::npos)
      add("glibc.malloc.hugetlb gives malloc's heaps another size than a trace tells apart; heapspy inspect PID looks into "
          "them.");
  if (trace.stop) add(fmt::format("Recording stopped early: {}.", fit(printable(*trace.stop), 200)));
  if (!trace.damage.empty())
    add(fmt::format("Damaged: {} in the trace; the first at byte {}: {}.",
                    findings::plural_text(trace.damage.size() + trace.damage_left_out, "place", "places"),
                    trace.damage[0].offset, fit(printable(trace.damage[0].reason), 200)));
  for (const std::string& line : mode_texts(report)) add(line);
  const auto pauses = static_cast<std::uint64_t>(
      std::count_if(report.marks.begin(), report.marks.end(), [](const MarkReport& mark) { return mark.kind == "paused"; }));
  if (pauses > 0)
    add(fmt::format("The program paused recording {} (see Marks); what happened meanwhile is not in the trace{}.",
                    findings::plural_text(pauses, "time", "times"),
                    report.totals.paused_frees.value_or(0)
                        ? fmt::format(", and {} of blocks that came then",
                                      findings::plural_text(*report.totals.paused_frees, "free is", "frees are"))
                        : ""));
  if (report.totals.unknown_frees.value_or(0) > 0)
    add(fmt::format("{} of blocks whose allocation the trace does not hold.",
                    findings::plural_text(*report.totals.unknown_frees, "free", "frees")));
  return lines;
}

Lines order_lines(const Report& report) {
  if (report.trace.reordered_events == 0) return {};
  return wrap(fmt::format("{} put in order by what must have come first, their times being too coarse.",
                          findings::plural_text(report.trace.reordered_events, "event was", "events were")),
              kWidth);
}

std::string allocator_line(const Report& report) {
  const ProcessReport& process = report.process;
  std::vector<std::string> parts;
  std::string allocator = printable(process.allocator_name.empty() ? "unknown allocator" : process.allocator_name);
  if (process.allocator_version) allocator += " " + printable(*process.allocator_version);
  parts.push_back(fit(allocator, 40));
  if (process.allocator_name == "glibc") {
    const std::size_t arenas = std::max(arenas_in(report.arenas), arenas_in(report.arenas_at_end));
    const auto limit = arena_max_setting(report);
    std::string text = arenas ? findings::plural_text(arenas, "arena", "arenas") : "arenas unknown (no snapshot)";
    if (arenas && !limit && process.cpus)
      text += fmt::format(" (limit {} = 8 × {} {})", 8 * *process.cpus, *process.cpus, *process.cpus == 1 ? "CPU" : "CPUs");
    parts.push_back(text);
    if (!limit) parts.emplace_back("MALLOC_ARENA_MAX not set");
    for (const MarkReport& mark : report.marks)
      if (trace::mallopt_call(mark.text)) parts.push_back(mark.text);
  } else {
    parts.emplace_back("not glibc, so arenas, pinned and trimmable bytes are not known");
  }
  for (const auto& [name, value] : process.environment)
    if (name.starts_with("MALLOC_") || name == "GLIBC_TUNABLES") parts.push_back(fit(printable(name + "=" + value), 60));
  return fit(joined(parts), kWidth);
}

Lines next_lines(const Report& report) {
  const std::string path = command_text({report.trace.path});
  std::vector<std::string> commands = {
      fmt::format("heapspy report {} --by thread|size|arena", columns(path) <= 50 ? path : "TRACE")};
  if (report.process.end == "running") commands.push_back(fmt::format("heapspy trim {}", report.process.pid));
  commands.emplace_back("heapspy diff BEFORE AFTER");
  if (report.process.allocator_name == "glibc")
    commands.emplace_back("heapspy compare --with default,arena_max=2,jemalloc -- CMD");
  Lines lines(1, "Next:");
  std::size_t used = columns(lines[0]);
  for (std::size_t i = 0; i < commands.size(); i++) {
    const std::string separator = i == 0 ? " " : " · ";
    if (i > 0 && used + 3 + columns(commands[i]) > kWidth) {
      lines.push_back("      " + commands[i]);
      used = columns(lines.back());
      continue;
    }
    lines.back() += separator + commands[i];
    used += columns(separator) + columns(commands[i]);
  }
  return lines;
}

}  // namespace heapspy::report
