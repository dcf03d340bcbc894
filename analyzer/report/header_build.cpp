#include "analyzer/report/header_build.h"

#include <fmt/core.h>

#include <cstring>
#include <ctime>

#include "analyzer/findings/quantity.h"
#include "analyzer/process/cpu_quota.h"
#include "analyzer/report/status_text.h"

namespace heapspy::report {
namespace {

using model::Figures;
using model::Moment;
using trace::Reader;

constexpr std::size_t kDamageListed = 1000;  // what is beyond is counted

std::string mode_word(format::Mode mode) {
  switch (mode) {
    case format::Mode::full: return "full";
    case format::Mode::ring: return "ring";
    case format::Mode::sample: return "sample";
    case format::Mode::count: return "count";
  }
  return fmt::format("unknown ({})", static_cast<std::uint32_t>(mode));
}

std::string clock_word(format::Clock clock) {
  switch (clock) {
    case format::Clock::stamp: return "stamp";
    case format::Clock::event: return "event";
  }
  return fmt::format("unknown ({})", static_cast<std::uint32_t>(clock));
}

std::string stacks_word(format::Stacks stacks) {
  switch (stacks) {
    case format::Stacks::none: return "none";
    case format::Stacks::frame_pointers: return "fp";
    case format::Stacks::dwarf: return "dwarf";
    case format::Stacks::libunwind: return "libunwind";
  }
  return fmt::format("unknown ({})", static_cast<std::uint32_t>(stacks));
}

std::optional<std::string> stop_text(const format::FileHeader& header) {
  const std::string detail = header.stop_errno ? fmt::format(" ({})", std::strerror(static_cast<int>(header.stop_errno))) : "";
  switch (static_cast<format::Stop>(header.stop)) {
    case format::Stop::none: return std::nullopt;
    case format::Stop::no_space: return "the disk was full" + detail;
    case format::Stop::file_limit: return "the trace met the limit of a file's size" + detail;
    case format::Stop::unreachable: return "the trace's path led nowhere any more" + detail;
    case format::Stop::no_descriptor: return "the process had no descriptor left" + detail;
    case format::Stop::io_error: return "the trace could not be written" + detail;
    case format::Stop::sandbox: return "the program entered a sandbox (seccomp), and the recorder rests since then";
    case format::Stop::max_size:
      return fmt::format("the trace reached HEAPSPY_MAX ({})", findings::bytes_text(header.max_bytes));
  }
  return fmt::format("reason {}", header.stop) + detail;
}

std::string utc_text(std::uint64_t realtime_ns) {
  const auto seconds = static_cast<std::time_t>(realtime_ns / 1'000'000'000);
  std::tm parts{};
  if (!gmtime_r(&seconds, &parts)) return "";
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:09}Z", text, realtime_ns % 1'000'000'000);
}

std::optional<std::string> trigger_word(format::Trigger trigger) {
  switch (trigger) {
    case format::Trigger::none: return std::nullopt;
    case format::Trigger::rss: return "rss";
    case format::Trigger::cgroup: return "cgroup";
    case format::Trigger::signal: return "signal";
    case format::Trigger::fail: return "fail";
    case format::Trigger::requested: return "requested";
  }
  return fmt::format("trigger {}", static_cast<std::uint32_t>(trigger));
}

std::optional<RingReport> ring_report(const Reader& reader, const Figures& figures) {
  if (!reader.ring()) return std::nullopt;
  RingReport ring;
  ring.whole = reader.ring()->whole;
  ring.limit_bytes = reader.header().ring_bytes;
  ring.frozen_by = trigger_word(reader.header().frozen_by);
  if (figures.events.events == 0) return ring;
  ring.oldest_s = reader.clock().seconds(reader.ring()->oldest);
  ring.from_s = reader.clock().seconds(reader.ring()->from);
  ring.to_s = std::max(*ring.from_s, reader.clock().seconds(figures.events.last_tick));
  return ring;
}

// Of the marks that are kept; a thread that pauses while another has paused already adds nothing.
std::vector<PauseReport> pauses_of(const Figures& figures, const trace::Clock& clock) {
  std::vector<PauseReport> pauses;
  for (const trace::Mark& mark : figures.marks) {
    const bool open = !pauses.empty() && !pauses.back().to_s;
    if (mark.kind == trace::Mark::Kind::paused && !open) pauses.push_back({clock.seconds(mark.tick), std::nullopt});
    if (mark.kind == trace::Mark::Kind::resumed && open) pauses.back().to_s = clock.seconds(mark.tick);
  }
  return pauses;
}

}  // namespace

TraceReport trace_report(const Reader& reader, const Figures& figures) {
  TraceReport trace;
  trace.path = reader.path();
  trace.format_version = reader.header().version;
  trace.mode = mode_word(reader.header().mode);
  trace.clock = clock_word(reader.header().clock);
  trace.size_bytes = reader.size_bytes();
  trace.events = figures.events.events;
  trace.lost_events = reader.lost_events();
  trace.reordered_events = figures.events.reordered_events;
  for (const trace::Damage& each : reader.damage())
    if (trace.damage.size() < kDamageListed)
      trace.damage.push_back({each.offset, each.reason});
    else
      trace.damage_left_out++;
  trace.stop = stop_text(reader.header());
  trace.complete = trace.lost_events == 0 && trace.damage.empty() && !trace.stop;
  trace.ring = ring_report(reader, figures);
  if (reader.header().mode == format::Mode::sample)
    trace.sample = SampleReport{reader.header().sample_bytes, reader.header().sampling_lost};
  trace.pauses = pauses_of(figures, reader.clock());
  trace.stacks = stacks_word(reader.header().stacks);
  trace.stacks_lost = reader.header().stacks_lost;
  return trace;
}

ProcessReport process_report(const Reader& reader, const Figures& figures) {
  const trace::ProcessInfo& info = reader.process();
  ProcessReport process;
  process.pid = info.pid;
  process.ppid = info.ppid;
  process.exe = info.exe;
  process.command = info.command;
  process.host = info.host;
  process.start_time = utc_text(info.start_realtime_ns);
  const bool ran_on = info.running || reader.header().frozen_by != format::Trigger::none;
  // In a sandbox the recorder cannot say how the process ended: that is a call that may be forbidden.
  const bool unseen = reader.header().stop == static_cast<std::uint32_t>(format::Stop::sandbox);
  process.end = ran_on                          ? "running"
                : info.end == format::End::exit ? "exit"
                : info.end == format::End::exec ? "exec"
                : unseen                        ? ""
                                                : "killed";
  const Moment* end = figures.at(model::Why::end);
  const trace::Tick last = std::max(figures.events.last_tick, end ? end->tick : 0);
  process.duration_s = reader.clock().seconds(info.end_tick.value_or(last));
  process.allocator_name = info.allocator;
  if (!info.allocator_version.empty()) process.allocator_version = info.allocator_version;
  process.environment = info.environment;
  process.front = info.front;
  process.forked = info.forked;
  if (info.cpus && *info.cpus > 0) process.cpus = static_cast<std::uint64_t>(*info.cpus);
  for (const model::Why why : {model::Why::peak, model::Why::end})
    if (const Moment* moment = figures.at(why); moment && !moment->cgroup.empty())
      process.cpu_quota = process::cpu_quota(moment->cgroup);
  if (!info.glibc_version.empty()) process.glibc_version = info.glibc_version;
  if (end) process.peak_rss_bytes = status_bytes(end->status_text, "VmHWM");
  return process;
}

}  // namespace heapspy::report
