#include "analyzer/report/build.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"
#include "analyzer/ledger/rss_ledger.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/recorder_share.h"
#include "analyzer/report/site_facts.h"

namespace heapspy::report {
namespace {

using model::Figures;
using model::Moment;
using trace::Reader;

// A report lists this much damage; what is beyond is counted.
constexpr std::size_t kDamageListed = 1000;
// What the model writes for "no upper end" (lifetimes.h).
constexpr double kNoUpperEnd = 1e6;

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

// "VmHWM:\t  123 kB" in /proc/PID/status, in bytes.
std::optional<std::uint64_t> status_bytes(const std::string& status, std::string_view key) {
  const std::string wanted = std::string(key) + ":";
  std::size_t at = status.starts_with(wanted) ? 0 : status.find("\n" + wanted);
  if (at == std::string::npos) return std::nullopt;
  at = status.find_first_of("0123456789\n", at + wanted.size() + (at ? 1 : 0));
  if (at == std::string::npos) return std::nullopt;
  std::uint64_t kib = 0;
  const auto parsed = std::from_chars(status.data() + at, status.data() + status.size(), kib);
  if (parsed.ec != std::errc{} || kib > ~0ull / 1024) return std::nullopt;
  return kib * 1024;
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

bool paused(const Figures& figures) {
  return std::any_of(figures.marks.begin(), figures.marks.end(),
                     [](const trace::Mark& mark) { return mark.kind == trace::Mark::Kind::paused; });
}

StandardErrorReport error_report(const model::StandardErrors& from) {
  return {from.allocations, from.frees,       from.reallocations,  from.bytes_allocated,
          from.live_bytes,  from.live_blocks, from.peak_live_bytes};
}

// What the mode cannot know is taken out of figures that were made as if every block were known.
void leave_out_unknown(Report& report, const Figures& figures, const Reader& reader) {
  TotalsReport& totals = report.totals;
  const bool ring = reader.ring() && !reader.ring()->whole;
  if (reader.ring()) totals.before_ring_frees = ring ? figures.totals.unrecorded_frees : 0;
  if (!ring && paused(figures)) totals.paused_frees = figures.totals.unrecorded_frees;
  if (figures.errors) {
    totals.standard_error = error_report(*figures.errors);
    for (std::size_t i = 0; i < report.threads.size(); i++)
      report.threads[i].standard_error = error_report(figures.thread_errors[i]);
    totals.temporary.reset();  // which events come next is not known
  }
  if (!figures.counted) return;
  totals.live_bytes = totals.peak_live_bytes = totals.temporary = totals.unknown_frees = totals.inherited_frees = std::nullopt;
  totals.peak_time_s.reset();
  if (figures.counted_negative) totals.live_blocks.reset();
  for (ThreadReport& thread : report.threads)
    thread.live_bytes = thread.peak_live_bytes = thread.freed_by_others = thread.freed_for_others = std::nullopt;
  for (SizeReport& size : report.sizes) size.live_blocks = size.live_bytes = std::nullopt;
  for (PointReport& point : report.timeline) point.live_bytes.reset();
}

// The same of a moment and its arenas. A sample says nothing about single pages and arenas; its live bytes are on the curve.
void leave_out_unknown(MomentReport& moment, std::vector<ArenaReport>& arenas, const Figures& figures, trace::Tick tick) {
  if (!figures.errors && !figures.counted) return;
  moment.live_bytes.reset();
  for (ArenaReport& arena : arenas) {
    arena.live_bytes.reset();
    arena.live_blocks.reset();
    arena.threads.clear();
  }
  if (!figures.errors) return;
  for (const model::CurvePoint& point : figures.curve)
    if (point.tick <= tick) moment.live_bytes = point.live_bytes;
}

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
  process.end = ran_on ? "running" : info.end == format::End::exit ? "exit" : info.end == format::End::exec ? "exec" : "killed";
  const Moment* end = figures.at(model::Why::end);
  const trace::Tick last = std::max(figures.events.last_tick, end ? end->tick : 0);
  process.duration_s = reader.clock().seconds(info.end_tick.value_or(last));
  process.allocator_name = info.allocator;
  if (!info.allocator_version.empty()) process.allocator_version = info.allocator_version;
  process.environment = info.environment;
  process.forked = info.forked;
  if (info.cpus && *info.cpus > 0) process.cpus = static_cast<std::uint64_t>(*info.cpus);
  if (!info.glibc_version.empty()) process.glibc_version = info.glibc_version;
  if (end) process.peak_rss_bytes = status_bytes(end->status_text, "VmHWM");
  return process;
}

TotalsReport totals_report(const Figures& figures, const trace::Clock& clock) {
  const model::Totals& from = figures.totals;
  TotalsReport totals;
  totals.allocations = from.allocations;
  totals.frees = from.frees;
  totals.reallocations = from.reallocations;
  totals.failed = from.failed;
  totals.bytes_allocated = from.bytes_allocated;
  totals.live_bytes = from.live_bytes;
  totals.live_blocks = from.live_blocks;
  totals.peak_live_bytes = from.peak_live_bytes;
  if (from.allocations > 0) totals.peak_time_s = clock.seconds(from.peak_tick);
  totals.temporary = from.temporary;
  totals.unknown_frees = from.unknown_frees;
  totals.inherited_frees = from.inherited_frees;
  totals.calls = {{"malloc", from.calls.malloc},
                  {"calloc", from.calls.calloc},
                  {"realloc", from.calls.realloc},
                  {"aligned", from.calls.aligned},
                  {"operator_new", from.calls.operator_new},
                  {"operator_new_aligned", from.calls.operator_new_aligned},
                  {"free", from.calls.free},
                  {"operator_delete", from.calls.operator_delete}};
  return totals;
}

SizeReport size_report(const model::SizeRow& row) {
  return {row.from, row.to, row.allocations, row.bytes, row.live_blocks, row.live_bytes};
}

ThreadReport thread_report(const model::ThreadFigures& from, const trace::Clock& clock) {
  ThreadReport thread;
  thread.id = index(from.id);
  thread.tid = from.tid;
  thread.name = from.name;
  if (from.start) thread.start_s = clock.seconds(*from.start);
  if (from.end) thread.end_s = clock.seconds(*from.end);
  thread.allocations = from.allocations;
  thread.frees = from.frees;
  thread.reallocations = from.reallocations;
  thread.failed = from.failed;
  thread.bytes_allocated = from.bytes_allocated;
  thread.live_bytes = from.live_bytes;
  thread.peak_live_bytes = from.peak_live_bytes;
  thread.freed_by_others = from.freed_by_others;
  thread.freed_for_others = from.freed_for_others;
  for (const model::SizeRow& row : from.sizes) thread.sizes.push_back(size_report(row));
  return thread;
}

std::vector<ArenaReport> arenas_report(const Moment& moment, const trace::Clock& clock) {
  std::vector<ArenaReport> arenas;
  for (const model::ArenaFigures& from : moment.heap.arenas) {
    ArenaReport arena;
    arena.id = from.id;
    arena.kind = std::string(name(from.kind));
    if (from.address) arena.address = from.address;
    const bool heaps_known = from.kind == model::ArenaKind::main || from.kind == model::ArenaKind::secondary;
    if (heaps_known || from.heaps) arena.heaps = from.heaps;
    for (const trace::ThreadId thread : from.threads) arena.threads.push_back(index(thread));
    arena.system_bytes = from.system_bytes;
    arena.in_use_bytes = from.in_use_bytes;
    arena.live_bytes = from.live_bytes;
    arena.live_blocks = from.live_blocks;
    arena.resident_bytes = from.resident_bytes;
    arena.trimmable_bytes = from.trimmable_bytes;
    arena.pinned_bytes = from.pinned_bytes;
    arena.cached_bytes = from.cached_bytes;
    arena.fragmentation = from.fragmentation;
    if (from.plug) {
      const trace::Block& block = from.plug->block;
      PlugReport plug;
      plug.address = block.address;
      plug.size = block.size;
      plug.thread = index(block.thread);
      if (block.known && block.born <= moment.tick) plug.age_s = clock.seconds(moment.tick) - clock.seconds(block.born);
      if (from.resident_bytes) plug.free_below_bytes = from.plug->free_below_bytes;
      arena.plug = plug;
    }
    arenas.push_back(std::move(arena));
  }
  return arenas;
}

RssReport rss_report(const Moment& moment, const std::string& trace_path) {
  RssReport rss;
  if (!moment.rss_bytes) return rss;
  const ledger::RssLedger from = ledger::rss_ledger(moment, trace_path);
  rss.total_bytes = from.total_bytes;
  for (const ledger::Part& part : from.parts) rss.parts.push_back({std::string(name(part.kind)), part.bytes});
  rss.notes = from.notes;
  rss.recorder_dirty_bytes = from.recorder_dirty_bytes;
  return rss;
}

MomentReport moment_report(const Moment& moment) {
  const char* why = moment.why == model::Why::peak ? "peak" : moment.why == model::Why::end ? "end" : "asked";
  const bool at_exit = !moment.reason || *moment.reason == format::SnapshotReason::exit;
  return {moment.time_s, why, moment.live_bytes, moment.why == model::Why::end && !at_exit};
}

findings::PartKind part_kind(ledger::PartKind kind) {
  switch (kind) {
    case ledger::PartKind::malloc_live:
    case ledger::PartKind::malloc_overhead:
    case ledger::PartKind::malloc_pinned:
    case ledger::PartKind::malloc_trimmable:
    case ledger::PartKind::malloc_cached:
    case ledger::PartKind::malloc_unsplit: return findings::PartKind::malloc;
    case ledger::PartKind::heapspy: return findings::PartKind::recorder;
    default: return findings::PartKind::other;
  }
}

// How large the free top of a secondary arena is: from its malloc_state.top to the end of the heap that top lies in.
std::optional<std::uint64_t> top_bytes(const Moment& moment, std::uint64_t arena) {
  std::uint64_t top = 0;
  for (const format::HeapRecord& heap : moment.heaps)
    if (heap.arena == arena && heap.top) top = heap.top;
  for (const format::HeapRecord& heap : moment.heaps)
    if (top >= heap.address && top < heap.address + heap.size) return heap.address + heap.size - top;
  return std::nullopt;
}

findings::Facts facts_of(const Report& report, const Figures& figures, const Moment& moment, const Reader& reader) {
  findings::Facts facts;
  facts.moment = moment_of_rss_text(moment_report(moment));
  facts.time_s = moment.time_s;
  facts.at_peak = moment.why == model::Why::peak;
  facts.pid = report.process.pid;
  facts.running = report.process.end == "running";
  facts.glibc = figures.facts.glibc;
  facts.threads = report.threads.size();
  facts.arena_max_setting = arena_max_setting(report);
  facts.trim_threshold_setting = trim_threshold_setting(report);
  if (report.process.cpus) facts.arena_limit = 8 * *report.process.cpus;
  facts.rss_bytes = moment.rss_bytes;
  if (moment.rss_bytes)
    for (const ledger::Part& part : ledger::rss_ledger(moment, reader.path()).parts)
      facts.parts.push_back({std::string(name(part.kind)), part_kind(part.kind), part.bytes});

  const auto thread_name = [&](trace::ThreadId id) {
    const ThreadReport* thread = thread_with_id(report, index(id));
    return thread ? thread->name : std::string();
  };
  for (const model::ArenaFigures& from : moment.heap.arenas) {
    findings::ArenaFacts arena;
    arena.main = from.kind == model::ArenaKind::main;
    arena.glibc_heap = arena.main || from.kind == model::ArenaKind::secondary;
    arena.label = arena.main ? "main" : fmt::format("arena {}", from.id);
    arena.live_bytes = from.live_bytes;
    arena.live_blocks = from.live_blocks;
    arena.resident_bytes = from.resident_bytes;
    arena.trimmable_bytes = from.trimmable_bytes;
    arena.pinned_bytes = from.pinned_bytes;
    arena.cached_bytes = from.cached_bytes;
    if (from.kind == model::ArenaKind::secondary) arena.top_bytes = top_bytes(moment, from.address);
    for (const trace::ThreadId thread : from.threads) arena.threads.push_back(thread_name(thread));
    if (from.plug && from.plug->block.known) {
      const trace::Block& block = from.plug->block;
      arena.plug = {block.address, block.size, thread_name(block.thread), std::nullopt, from.plug->free_below_bytes, ""};
      if (moment.tick >= block.born)
        arena.plug->age_s = reader.clock().seconds(moment.tick) - reader.clock().seconds(block.born);
    }
    facts.arenas.push_back(std::move(arena));
  }
  if (moment.reason) {
    facts.mappings = moment.mappings.size();
    facts.executable_mappings = static_cast<std::uint64_t>(
        std::count_if(moment.mappings.begin(), moment.mappings.end(), [](const trace::Mapping& each) { return each.execute; }));
    facts.page_table_bytes = status_bytes(moment.status_text, "VmPTE");
  }
  for (const model::ThreadPin& pin : moment.heap.pins)
    facts.pinners.push_back({thread_name(pin.thread), pin.bytes, pin.blocks});
  facts.end_s = report.process.duration_s.value_or(0);
  facts.end_live_bytes = figures.totals.live_bytes;
  facts.peak_live_bytes = figures.totals.peak_live_bytes;
  facts.live_bytes = moment.live_bytes;
  facts.bytes_allocated = report.totals.bytes_allocated;
  facts.estimated = figures.errors.has_value();
  // Where not every block is known, neither pages nor parts can be told apart; and where calls are missing, blocks that seem
  // to pile up may have been given back.
  const bool calls_missing = (reader.ring() && !reader.ring()->whole) || paused(figures) || figures.counted;
  if (figures.facts.unrecorded || paused(figures)) {
    facts.arenas.clear();
    facts.parts.clear();
    facts.pinners.clear();
    facts.live_bytes = figures.errors ? report.totals.live_bytes : std::nullopt;
  }
  if (calls_missing) return facts;
  for (const PointReport& point : report.timeline)
    if (point.live_bytes) facts.timeline.push_back({point.time_s, *point.live_bytes});
  for (const SizeReport& size : report.sizes)
    if (size.live_blocks && size.live_bytes)
      facts.sizes_at_end.push_back({size.from, size.to, size.allocations, *size.live_blocks, *size.live_bytes});
  return facts;
}

void add_marks(Report& report, const Figures& figures, const Reader& reader) {
  const auto add = [&](const trace::Mark& mark) {
    const char* kind = mark.kind == trace::Mark::Kind::named    ? "mark"
                       : mark.kind == trace::Mark::Kind::paused ? "paused"
                                                                : "resumed";
    report.marks.push_back({reader.clock().seconds(mark.tick), kind, mark.text, std::nullopt});
    if (mark.thread != trace::ThreadId::none) report.marks.back().thread = index(mark.thread);
  };
  for (const trace::Mark& mark : figures.marks) add(mark);
  for (const trace::Mark& mark : reader.outside_marks()) add(mark);
  std::stable_sort(report.marks.begin(), report.marks.end(),
                   [](const MarkReport& left, const MarkReport& right) { return left.time_s < right.time_s; });
  report.marks_left_out = figures.marks_left_out;
}

ThreadReport* find_thread(Report& report, std::uint32_t id) { return const_cast<ThreadReport*>(thread_with_id(report, id)); }

}  // namespace

namespace {

// Names are in the stream, so they take a pass of their own.
std::vector<trace::ThreadId> threads_called(const Reader& reader, const std::string& wanted) {
  std::vector<trace::ThreadId> threads;
  for (const trace::ThreadStream& stream : reader.threads())
    if (std::to_string(stream.tid) == wanted) threads.push_back(stream.id);
  if (!threads.empty()) return threads;
  model::ThreadStats stats;
  trace::Timeline(reader, {&stats}).run();
  std::string known;
  for (const model::ThreadFigures& thread : stats.figures()) {
    if (::fnmatch(wanted.c_str(), thread.name.c_str(), 0) == 0) threads.push_back(thread.id);
    if (known.size() < 200) known += (known.empty() ? "" : ", ") + thread.name;
  }
  if (threads.empty()) throw NoSuchThread(fmt::format("no thread is called \"{}\"; there are {}", wanted, known));
  return threads;
}

// "blocks of thread main of 1.0 KiB and more, allocated from 1.0 s to 2.0 s"
std::string scope_text(const BuildOptions::SiteScope& scope) {
  std::string text;
  if (!scope.thread.empty()) text += " of thread " + scope.thread;
  if (scope.least_bytes) text += fmt::format(" of {} and more", findings::bytes_text(scope.least_bytes));
  if (scope.most_bytes != ~std::uint64_t{0}) text += fmt::format(" of up to {}", findings::bytes_text(scope.most_bytes));
  if (scope.from_s || scope.to_s) text += ", allocated";
  if (scope.from_s) text += " from " + findings::seconds_text(*scope.from_s);
  if (scope.to_s) text += " to " + findings::seconds_text(*scope.to_s);
  return text.empty() ? text : "blocks" + text;
}

model::SiteFilter filter_of(const Reader& reader, const BuildOptions::SiteScope& scope) {
  model::SiteFilter filter;
  if (!scope.thread.empty()) filter.threads = threads_called(reader, scope.thread);
  if (scope.from_s) filter.from = reader.clock().ticks(*scope.from_s);
  if (scope.to_s) filter.to = reader.clock().ticks(*scope.to_s);
  filter.least_bytes = scope.least_bytes;
  filter.most_bytes = scope.most_bytes;
  return filter;
}

}  // namespace

Report build_report(const Reader& reader, const Figures& figures, const BuildOptions& options) {
  Report report;
  report.process = process_report(reader, figures);
  report.totals = totals_report(figures, reader.clock());
  for (const model::ThreadFigures& thread : figures.threads) report.threads.push_back(thread_report(thread, reader.clock()));
  for (const model::SizeRow& row : figures.sizes) report.sizes.push_back(size_report(row));
  for (const model::LifetimeRow& row : figures.lifetimes) {
    LifetimeReport life{row.from_s, row.to_s, row.blocks, row.bytes};
    if (row.to_s >= kNoUpperEnd) life.to_s.reset();
    report.lifetimes.push_back(life);
  }
  for (const model::CurvePoint& point : figures.curve)
    report.timeline.push_back(
        {reader.clock().seconds(point.tick), point.live_bytes, point.system_bytes, point.rss_bytes, point.pinned_bytes});

  add_marks(report, figures, reader);
  leave_out_unknown(report, figures, reader);

  const Moment* end = figures.at(model::Why::end);
  const Moment* peak = figures.at(model::Why::peak);
  const Moment* at = options.at_seconds                             ? figures.at(model::Why::requested)
                     : options.at == BuildOptions::At::peak && peak ? peak
                                                                    : end;
  if (at) {
    report.at = moment_report(*at);
    report.arenas = arenas_report(*at, reader.clock());
    report.rss = rss_report(*at, reader.path());
    leave_out_unknown(report.at, report.arenas, figures, at->tick);
    if (at->heap.process.pinned_bytes) {
      for (ThreadReport& thread : report.threads) thread.pinned_bytes = 0;
      for (const model::ThreadPin& pin : at->heap.pins)
        if (ThreadReport* thread = find_thread(report, index(pin.thread))) thread->pinned_bytes = pin.bytes;
    }
  }
  if (end) {
    report.end_at = moment_report(*end);
    report.arenas_at_end = arenas_report(*end, reader.clock());
    report.rss_at_end = rss_report(*end, reader.path());
    leave_out_unknown(report.end_at, report.arenas_at_end, figures, end->tick);
  }
  std::optional<SiteBook> book;
  if (!figures.sites.empty() && (options.sites.most || options.sites.all)) {
    book.emplace(reader, options.sites.search);
    add_sites(report, *book, figures, at, end, sites_of_facts(figures, {at, peak, end}), options.sites);
  }
  const auto judged = [&](const Moment& moment) {
    findings::Facts facts = facts_of(report, figures, moment, reader);
    if (book) add_sites(facts, report, figures, moment, *book, options.sites.suppressions);
    return findings::judge(facts);
  };
  // A program may hold to the end what it freed after its peak, or give everything back before its end: both are told.
  if (!options.verdicts_at_moment && peak && end)
    report.findings = findings::larger_of(judged(*peak), judged(*end));
  else if (at)
    report.findings = judged(*at);
  report.trace = trace_report(reader, figures);  // last: damage is found while events are read
  report.recorder = recorder_share(reader, report.trace.events, report.rss);
  return report;
}

Report build_report(const std::string& path, const BuildOptions& options) {
  const Reader reader(path);
  model::ModelOptions wanted;
  wanted.at_seconds = options.at_seconds;
  wanted.sites = filter_of(reader, options.scope);
  wanted.progress = options.progress;
  Report report = build_report(reader, model::build_figures(reader, wanted), options);
  report.site_scope = scope_text(options.scope);
  return report;
}

}  // namespace heapspy::report
