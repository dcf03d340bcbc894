#include "analyzer/report/build.h"

#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/verdicts.h"
#include "analyzer/report/facts_build.h"
#include "analyzer/report/header_build.h"
#include "analyzer/report/java_build.h"
#include "analyzer/report/java_facts.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/pins_build.h"
#include "analyzer/report/recorder_share.h"
#include "analyzer/report/rss_build.h"
#include "analyzer/report/site_facts.h"
#include "analyzer/report/site_scope_build.h"

namespace heapspy::report {
namespace {

using model::Figures;
using model::Moment;
using trace::Reader;

// A report lists the ledgers of about so many snapshots.
constexpr std::size_t kLedgers = 256;
// What the model writes for "no upper end" (lifetimes.h).
constexpr double kNoUpperEnd = 1e6;

StandardErrorReport error_report(const model::StandardErrors& from) {
  return {from.allocations, from.frees,       from.reallocations,  from.bytes_allocated,
          from.live_bytes,  from.live_blocks, from.peak_live_bytes};
}

// What the mode cannot know is taken out of figures that were made as if every block were known.
void leave_out_unknown(Report& report, const Figures& figures, const Reader& reader) {
  TotalsReport& totals = report.totals;
  const bool ring = reader.ring() && !reader.ring()->whole;
  if (reader.ring()) totals.before_ring_frees = ring ? figures.totals.unrecorded_frees : 0;
  if (!ring && was_paused(figures)) totals.paused_frees = figures.totals.unrecorded_frees;
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
  moment.live_at_asked_bytes.reset();
  for (ArenaReport& arena : arenas) {
    arena.live_bytes.reset();
    arena.live_blocks.reset();
    arena.threads.clear();
  }
  if (!figures.errors) return;
  for (const model::CurvePoint& point : figures.curve)
    if (point.tick <= tick) moment.live_bytes = point.live_bytes;
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
  for (const model::ThreadNaming& naming : from.names) thread.names.push_back({clock.seconds(naming.tick), naming.name});
  thread.names_left_out = from.names_left_out;
  thread.group = from.java_group;
  thread.daemon = from.java_daemon;
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
      plug.site = index(block.site);
      arena.plug = plug;
    }
    arenas.push_back(std::move(arena));
  }
  return arenas;
}

MomentReport moment_report(const Moment& moment) {
  const char* why = moment.why == model::Why::peak ? "peak" : moment.why == model::Why::end ? "end" : "asked";
  const bool at_exit = !moment.reason || *moment.reason == format::SnapshotReason::exit;
  MomentReport report;
  report.time_s = moment.time_s;
  report.why = why;
  report.live_bytes = moment.live_bytes;
  report.last_snapshot = moment.why == model::Why::end && !at_exit;
  return report;
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
    report.at.asked_s = options.at_seconds;
    report.at.live_at_asked_bytes = figures.live_at_asked;
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
  add_java(report, figures, at, reader);
  std::optional<SiteBook> book;
  if (!figures.sites.empty() && (options.sites.most || options.sites.all)) {
    book.emplace(reader, options.sites.search);
    std::vector<trace::SiteId> named = sites_of_facts(figures, {at, peak, end});
    for (const Moment* moment : {at, end})
      if (moment)
        for (const trace::SiteId site : sites_of_pins(*moment)) named.push_back(site);
    add_sites(report, *book, figures, at, end, named, options.sites);
    for (std::vector<ArenaReport>* arenas : {&report.arenas, &report.arenas_at_end})
      for (ArenaReport& arena : *arenas)
        if (arena.plug && arena.plug->site) arena.plug->where = book->where(trace::SiteId{arena.plug->site});
  }
  if (at) report.pins = pins_report(*at, reader, book ? &*book : nullptr);
  if (end) report.pins_at_end = pins_report(*end, reader, book ? &*book : nullptr);
  const auto judged = [&](const Moment& moment) {
    findings::Facts facts = facts_of(report, moment_report(moment), figures, moment, reader);
    add_java_facts(facts, report, figures, moment, reader);
    if (book) add_sites(facts, report, figures, moment, *book, options.sites.suppressions, reader);
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
  wanted.sites = site_filter(reader, options.scope);
  wanted.progress = options.progress;
  std::vector<LedgerReport> ledgers;
  std::size_t snapshot = 0;
  const std::size_t step = reader.snapshots() / kLedgers + 1;
  wanted.at_snapshot = [&](const Moment& moment) {
    if (snapshot++ % step == 0 || snapshot == reader.snapshots()) ledgers.push_back(ledger_report(moment, reader));
  };
  Report report = build_report(reader, model::build_figures(reader, wanted), options);
  report.ledgers_left_out = snapshot - ledgers.size();
  report.ledgers = std::move(ledgers);
  report.site_scope = site_scope_text(options.scope);
  return report;
}

}  // namespace heapspy::report
