#include "analyzer/report/facts_build.h"

#include <fmt/core.h>

#include <algorithm>

#include "analyzer/ledger/rss_ledger.h"
#include "analyzer/report/condition.h"
#include "analyzer/report/moment_text.h"
#include "analyzer/report/status_text.h"

namespace heapspy::report {
namespace {

using model::Figures;
using model::Moment;
using trace::Reader;

findings::PartKind part_kind(ledger::PartKind kind) {
  switch (kind) {
    case ledger::PartKind::malloc_live:
    case ledger::PartKind::malloc_overhead:
    case ledger::PartKind::malloc_pinned:
    case ledger::PartKind::malloc_trimmable:
    case ledger::PartKind::malloc_cached:
    case ledger::PartKind::malloc_undivided:
    case ledger::PartKind::malloc_unsplit: return findings::PartKind::malloc;
    case ledger::PartKind::heapspy: return findings::PartKind::recorder;
    default: return findings::PartKind::other;
  }
}

}  // namespace

bool was_paused(const Figures& figures) {
  return std::any_of(figures.marks.begin(), figures.marks.end(),
                     [](const trace::Mark& mark) { return mark.kind == trace::Mark::Kind::paused; });
}

findings::Facts facts_of(const Report& report, const MomentReport& shown, const Figures& figures, const Moment& moment,
                         const Reader& reader) {
  findings::Facts facts;
  facts.moment = moment_of_rss_text(shown);
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
  if (moment.rss_bytes) {
    const ledger::RssLedger rss = ledger::rss_ledger(moment, reader.path());
    for (const ledger::Part& part : rss.parts)
      facts.parts.push_back({std::string(name(part.kind)), part_kind(part.kind), part.bytes});
    for (const ledger::Group& group : rss.groups)
      facts.groups.push_back({group.name, group.mappings, group.bytes, group.swap_bytes, group.huge_bytes});
  }

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
    if (from.parts) {
      arena.trimmable_large_bytes = from.parts->trimmable_large;
      arena.thread_cache_bytes = from.parts->cached_thread_caches;
      if (from.kind == model::ArenaKind::secondary) arena.secondary_top_bytes = from.parts->cached_tops;
    }
    if (from.kind == model::ArenaKind::secondary) facts.secondary_arenas++;
    for (const trace::ThreadId thread : from.threads) arena.threads.push_back(thread_name(thread));
    if (from.plug && from.plug->block.known) {
      const trace::Block& block = from.plug->block;
      arena.plug = {block.address, block.size, thread_name(block.thread), std::nullopt, from.plug->free_below_bytes, ""};
      if (moment.tick >= block.born)
        arena.plug->age_s = reader.clock().seconds(moment.tick) - reader.clock().seconds(block.born);
    }
    facts.arenas.push_back(std::move(arena));
  }
  if (const auto locked = status_bytes(moment.status_text, "VmLck"); locked && moment.rss_bytes)
    facts.locked = *locked >= *moment.rss_bytes / 2;
  if (moment.reason) {
    facts.mappings = moment.mappings.size();
    facts.executable_mappings = static_cast<std::uint64_t>(
        std::count_if(moment.mappings.begin(), moment.mappings.end(), [](const trace::Mapping& each) { return each.execute; }));
    facts.page_table_bytes = status_bytes(moment.status_text, "VmPTE");
  }
  for (const model::ThreadPin& pin : moment.heap.pins)
    facts.pinners.push_back({thread_name(pin.thread), pin.bytes, pin.blocks});
  if (const auto& raised = moment.threshold.raised)
    facts.threshold = {raised->block_bytes, moment.threshold.mmap_threshold_bytes, moment.threshold.trim_threshold_bytes,
                       moment.threshold.large_in_heaps, reader.clock().seconds(raised->tick)};
  for (const model::ArenaNeed& need : moment.needs)
    if (need.bytes) facts.arena_needs.push_back({need.arenas, need.bytes});
  const model::ConcurrencyFigures& together = figures.concurrency;
  facts.concurrency = {together.calls_together,
                       together.slices_together ? static_cast<double>(together.calls_together) /
                                                      (static_cast<double>(together.slices_together) * 1e-3)
                                                : 0,
                       together.threads_at_once};
  facts.end_s = report.process.duration_s.value_or(0);
  facts.end_live_bytes = figures.totals.live_bytes;
  facts.peak_live_bytes = figures.totals.peak_live_bytes;
  facts.live_bytes = moment.live_bytes;
  facts.bytes_allocated = report.totals.bytes_allocated;
  facts.estimated = figures.errors.has_value();
  // Where not every block is known, neither pages nor parts can be told apart; and where calls are missing, blocks that seem
  // to pile up may have been given back.
  const bool calls_missing =
      (reader.ring() && !reader.ring()->whole) || was_paused(figures) || figures.counted || figures.calls_missing;
  if (figures.facts.unrecorded || was_paused(figures)) {
    facts.arenas.clear();
    facts.parts.clear();
    facts.groups.clear();
    facts.pinners.clear();
    facts.threshold.reset();
    facts.arena_needs.clear();
    facts.concurrency = {};
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

}  // namespace heapspy::report
