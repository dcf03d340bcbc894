#include "analyzer/report/report_json.h"

#include <cmath>

#include "analyzer/report/json_values.h"
#include "analyzer/report/rss_json.h"

namespace heapspy::report {
namespace {

Json ring_json(const std::optional<RingReport>& ring) {
  if (!ring) return nullptr;
  return {{"from_s", maybe(ring->from_s)}, {"to_s", maybe(ring->to_s)},        {"oldest_s", maybe(ring->oldest_s)},
          {"whole", ring->whole},          {"limit_bytes", ring->limit_bytes}, {"frozen_by", maybe(ring->frozen_by)}};
}

Json sample_json(const std::optional<SampleReport>& sample) {
  if (!sample) return nullptr;
  return {{"mean_bytes", sample->mean_bytes}, {"lost_blocks", sample->lost_blocks}};
}

Json moment_json(const MomentReport& moment) {
  return {{"time_s", maybe(moment.time_s)},
          {"why", moment.why},
          {"live_bytes", maybe(moment.live_bytes)},
          {"asked_s", maybe(moment.asked_s)},
          {"live_at_asked_bytes", maybe(moment.live_at_asked_bytes)},
          {"last_snapshot", moment.last_snapshot}};
}

// time_s: the sum, where both are known.
Json recorder_json(const RecorderReport& recorder) {
  Seconds all;
  if (recorder.measured_s && recorder.predicted_s) all = *recorder.measured_s + *recorder.predicted_s;
  const char* const method =
      "measured: wall time of its beginning, appends, new threads and snapshots, by the recorder; predicted: events * "
      "ns_per_event, the "
      "cost "
      "of a hook in bench/README.md";
  return {{"resident_bytes", maybe(recorder.resident_bytes)},
          {"dirty_bytes", maybe(recorder.dirty_bytes)},
          {"time_s", maybe(all)},
          {"measured_s", maybe(recorder.measured_s)},
          {"predicted_s", maybe(recorder.predicted_s)},
          {"ns_per_event", maybe(recorder.ns_per_event)},
          {"method", method}};
}

Json plug_json(const std::optional<PlugReport>& plug) {
  if (!plug) return nullptr;
  return {{"address", plug->address},
          {"size", plug->size},
          {"thread", plug->thread},
          {"age_s", maybe(plug->age_s)},
          {"free_below_bytes", maybe(plug->free_below_bytes)},
          {"site", plug->site},
          {"where", plug->where.empty() ? Json() : Json(plug->where)}};
}

Json arena_json(const ArenaReport& arena) {
  return {{"id", arena.id},
          {"kind", arena.kind},
          {"address", maybe(arena.address)},
          {"heaps", maybe(arena.heaps)},
          {"threads", arena.threads},
          {"system_bytes", maybe(arena.system_bytes)},
          {"in_use_bytes", maybe(arena.in_use_bytes)},
          {"live_bytes", maybe(arena.live_bytes)},
          {"live_blocks", maybe(arena.live_blocks)},
          {"resident_bytes", maybe(arena.resident_bytes)},
          {"trimmable_bytes", maybe(arena.trimmable_bytes)},
          {"pinned_bytes", maybe(arena.pinned_bytes)},
          {"cached_bytes", maybe(arena.cached_bytes)},
          {"fragmentation", maybe(arena.fragmentation)},
          {"plug", plug_json(arena.plug)}};
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json java_json(const std::optional<JavaReport>& java) {
  if (!java) return nullptr;
  return {{"callers", list_json(java->callers,
                                [](const CallerReport& caller) -> Json {
                                  return {{"library", text_or_null(caller.library)}, {"stack_known", caller.known},
                                          {"allocations", caller.allocations},       {"bytes", caller.bytes},
                                          {"live_bytes", maybe(caller.live_bytes)},  {"live_blocks", maybe(caller.live_blocks)},
                                          {"end_live_bytes", caller.end_live_bytes}};
                                })},
          {"roles", list_json(java->roles,
                              [](const RoleReport& role) -> Json {
                                return {{"role", role.role},
                                        {"threads", role.threads},
                                        {"allocations", role.allocations},
                                        {"bytes_allocated", role.bytes_allocated},
                                        {"live_bytes", maybe(role.live_bytes)}};
                              })},
          // The recorder does not call into the JVM for them; heapspy inspect asks a JVM that lives.
          {"native_memory", nullptr},
          {"buffer_pools", nullptr}};
}

}  // namespace

Json site_json(const SiteReport& site) {
  Json json = {{"id", site.id},
               {"frames", list_json(site.frames, frame_json)},
               {"allocations", site.allocations},
               {"bytes", site.bytes},
               {"live_bytes", maybe(site.live_bytes)},
               {"live_blocks", maybe(site.live_blocks)},
               {"peak_bytes", maybe(site.peak_bytes)},
               {"temporary", maybe(site.temporary)},
               {"pinned_bytes", maybe(site.pinned_bytes)},
               {"threads", site.threads},
               {"reallocations", site.reallocations},
               {"copied_bytes", site.copied_bytes},
               {"moved_bytes", site.moved_bytes},
               {"final_bytes", site.final_bytes},
               {"largest_bytes", site.largest_bytes},
               {"ended_blocks", site.ended_blocks},
               {"mean_lifetime_s", maybe(site.mean_lifetime_s)},
               {"end_live_bytes", maybe(site.end_live_bytes)},
               {"end_live_blocks", maybe(site.end_live_blocks)},
               {"survivors", site.survivors},
               {"stack_end", site.stack_end},
               {"suppressed", site.suppressed}};
  if (!site.processes) return json;
  json["threads"] = nullptr;  // of several processes
  json["processes"] = *site.processes;
  return json;
}

Json module_json(const ModuleReport& module) {
  return {{"path", module.path},
          {"build_id", module.build_id},
          {"state", module.state},
          {"debug_info", module.debug_info},
          {"symbols", module.symbols}};
}

Json trace_json(const TraceReport& trace) {
  Json damage = Json::array();
  for (const DamageReport& each : trace.damage) damage.push_back({{"offset", each.offset}, {"reason", each.reason}});
  return {{"path", trace.path},
          {"format_version", trace.format_version},
          {"mode", trace.mode},
          {"clock", trace.clock},
          {"size_bytes", trace.size_bytes},
          {"events", trace.events},
          {"lost_events", trace.lost_events},
          {"reordered_events", trace.reordered_events},
          {"complete", trace.complete},
          {"damage", std::move(damage)},
          {"damage_left_out", trace.damage_left_out},
          {"stop", maybe(trace.stop)},
          {"ring", ring_json(trace.ring)},
          {"sample", sample_json(trace.sample)},
          {"pauses", list_json(trace.pauses,
                               [](const PauseReport& pause) -> Json {
                                 return {{"from_s", pause.from_s}, {"to_s", maybe(pause.to_s)}};
                               })},
          {"stacks", trace.stacks},
          {"stacks_lost", trace.stacks_lost}};
}

Json process_json(const ProcessReport& process) {
  Json environment = Json::object();
  for (const auto& [name, value] : process.environment) environment[name] = value;
  return {{"pid", process.pid},
          {"ppid", process.ppid},
          {"exe", process.exe},
          {"command", process.command},
          {"host", process.host},
          {"start_time", process.start_time},
          {"duration_s", maybe(process.duration_s)},
          {"front", process.front.empty() ? Json() : Json(process.front)},
          {"end", process.end.empty() ? Json() : Json(process.end)},
          {"allocator", {{"name", process.allocator_name}, {"version", maybe(process.allocator_version)}}},
          {"environment", std::move(environment)},
          {"forked", process.forked},
          {"cpus", maybe(process.cpus)},
          {"cpu_quota", maybe(process.cpu_quota)},
          {"peak_rss_bytes", maybe(process.peak_rss_bytes)},
          {"glibc_version", maybe(process.glibc_version)}};
}

Json thread_report_json(const ThreadReport& thread) {
  return {{"id", thread.id},
          {"tid", thread.tid},
          {"name", thread.name},
          {"start_s", maybe(thread.start_s)},
          {"end_s", maybe(thread.end_s)},
          {"allocations", thread.allocations},
          {"frees", thread.frees},
          {"reallocations", thread.reallocations},
          {"failed", thread.failed},
          {"bytes_allocated", thread.bytes_allocated},
          {"live_bytes", maybe(thread.live_bytes)},
          {"peak_live_bytes", maybe(thread.peak_live_bytes)},
          {"freed_by_others", maybe(thread.freed_by_others)},
          {"freed_for_others", maybe(thread.freed_for_others)},
          {"pinned_bytes", maybe(thread.pinned_bytes)},
          {"standard_error", error_json(thread.standard_error)},
          {"sizes", list_json(thread.sizes, thread_size_json)},
          {"role", maybe(thread.role)},
          {"group", maybe(thread.group)},
          {"daemon", maybe(thread.daemon)},
          {"names", list_json(thread.names,
                              [](const ThreadReport::Name& each) -> Json {
                                return {{"time_s", each.time_s}, {"name", each.name}};
                              })},
          {"names_left_out", thread.names_left_out}};
}

Json frame_json(const FrameReport& frame) {
  return {{"function", text_or_null(frame.function)},
          {"file", text_or_null(frame.file)},
          {"line", maybe(frame.line)},
          {"module", text_or_null(frame.module)},
          {"offset", frame.is_java ? Json(nullptr) : Json(frame.offset)},
          {"inlined", frame.inlined}};
}

// Rounded up: an error of 0 is said of what is known exactly only.
Json error_json(const std::optional<StandardErrorReport>& error) {
  if (!error) return nullptr;
  const auto whole = [](double value) { return static_cast<std::uint64_t>(std::ceil(value)); };
  return {{"allocations", whole(error->allocations)},        {"frees", whole(error->frees)},
          {"reallocations", whole(error->reallocations)},    {"bytes_allocated", whole(error->bytes_allocated)},
          {"live_bytes", whole(error->live_bytes)},          {"live_blocks", whole(error->live_blocks)},
          {"peak_live_bytes", whole(error->peak_live_bytes)}};
}

Json totals_json(const TotalsReport& totals) {
  Json calls = Json::object();
  for (const auto& [name, count] : totals.calls) calls[name] = count;
  return {{"allocations", totals.allocations},
          {"frees", totals.frees},
          {"reallocations", totals.reallocations},
          {"failed", totals.failed},
          {"bytes_allocated", totals.bytes_allocated},
          {"live_bytes", maybe(totals.live_bytes)},
          {"live_blocks", maybe(totals.live_blocks)},
          {"peak_live_bytes", maybe(totals.peak_live_bytes)},
          {"peak_time_s", maybe(totals.peak_time_s)},
          {"temporary", maybe(totals.temporary)},
          {"unknown_frees", maybe(totals.unknown_frees)},
          {"inherited_frees", maybe(totals.inherited_frees)},
          {"before_ring_frees", maybe(totals.before_ring_frees)},
          {"paused_frees", maybe(totals.paused_frees)},
          {"calls", std::move(calls)},
          {"standard_error", error_json(totals.standard_error)}};
}

Json size_json(const SizeReport& size) {
  return {{"from", size.from},
          {"to", size.to},
          {"allocations", size.allocations},
          {"bytes", size.bytes},
          {"live_blocks", maybe(size.live_blocks)},
          {"live_bytes", maybe(size.live_bytes)}};
}

Json thread_size_json(const SizeReport& size) {
  return {{"from", size.from}, {"to", size.to}, {"allocations", size.allocations}, {"bytes", size.bytes}};
}

Json lifetime_json(const LifetimeReport& life) {
  return {{"from_s", life.from_s}, {"to_s", maybe(life.to_s)}, {"blocks", life.blocks}, {"bytes", life.bytes}};
}

Json finding_json(const findings::Finding& finding) {
  Json evidence = Json::object();
  for (const auto& [name, figure] : finding.evidence) {
    Json& value = evidence[name];
    std::visit([&](const auto& held) { value = held; }, figure);
  }
  return {{"kind", finding.kind},
          {"severity", findings::severity_word(finding.severity)},
          {"bytes", finding.bytes},
          {"text", finding.text},
          {"fix", maybe(finding.fix)},
          {"cost", maybe(finding.cost)},
          {"evidence", std::move(evidence)},
          {"title", finding.title},
          {"moment", finding.moment.empty() ? Json() : Json(finding.moment)},
          {"part_of", finding.part_of},
          {"fix_saves_bytes", maybe(finding.fix_saves_bytes)},
          {"to_try", maybe(finding.to_try)}};
}

Json report_json(const Report& report) {
  Json json;
  json["schema"] = "heapspy.report/1";
  json["trace"] = trace_json(report.trace);
  json["process"] = process_json(report.process);
  json["totals"] = totals_json(report.totals);
  json["at"] = moment_json(report.at);
  json["threads"] = list_json(report.threads, thread_report_json);
  json["sizes"] = list_json(report.sizes, size_json);
  json["lifetimes"] = list_json(report.lifetimes, lifetime_json);
  json["arenas"] = list_json(report.arenas, arena_json);
  json["rss"] = rss_json(report.rss);
  json["ledgers"] = list_json(report.ledgers, ledger_json);
  json["ledgers_left_out"] = report.ledgers_left_out;
  json["pins"] = pins_json(report.pins);
  json["trim_prediction_bytes"] = maybe(trim_prediction(report.arenas));
  json["not_resident_bytes"] = maybe(not_resident(report.arenas));
  json["timeline"] = list_json(report.timeline, [](const PointReport& point) -> Json {
    return {{"time_s", point.time_s},
            {"live_bytes", maybe(point.live_bytes)},
            {"system_bytes", maybe(point.system_bytes)},
            {"rss_bytes", maybe(point.rss_bytes)},
            {"pinned_bytes", maybe(point.pinned_bytes)}};
  });
  json["marks"] = list_json(report.marks, [](const MarkReport& mark) -> Json {
    return {{"time_s", mark.time_s}, {"kind", mark.kind}, {"text", mark.text}, {"thread", maybe(mark.thread)}};
  });
  json["marks_left_out"] = report.marks_left_out;
  json["recorder"] = recorder_json(report.recorder);
  json["java"] = java_json(report.java);
  json["sites"] = list_json(report.sites, site_json);
  json["sites_left_out"] = report.sites_left_out;
  json["modules"] = list_json(report.modules, module_json);
  json["suppressed_bytes"] = maybe(report.suppressed_bytes);
  json["findings"] = list_json(report.findings, finding_json);
  json["end"] = {{"at", moment_json(report.end_at)},
                 {"arenas", list_json(report.arenas_at_end, arena_json)},
                 {"rss", rss_json(report.rss_at_end)},
                 {"pins", pins_json(report.pins_at_end)},
                 {"trim_prediction_bytes", maybe(trim_prediction(report.arenas_at_end))},
                 {"not_resident_bytes", maybe(not_resident(report.arenas_at_end))}};
  return json;
}

std::string dump_json(const Json& json) { return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"; }

void write_json(const Json& without_sites, const std::vector<SiteReport>& sites,
                const std::function<void(std::string_view)>& write) {
  const std::string text = dump_json(without_sites);
  // A line break is in no string, so this is the key of the outermost object.
  const std::string empty = "\n  \"sites\": []";
  const std::size_t at = text.find(empty);
  if (sites.empty() || at == std::string::npos) return write(text);
  const std::size_t inside = at + empty.size() - 1;
  write(std::string_view(text).substr(0, inside));
  for (std::size_t i = 0; i < sites.size(); i++) {
    const std::string site = dump_json(site_json(sites[i]));
    write(i == 0 ? "\n" : ",\n");
    for (std::size_t from = 0; from < site.size();) {
      const std::size_t end = site.find('\n', from);  // there is one at its end
      write("    ");
      write(std::string_view(site).substr(from, end + 1 == site.size() ? end - from : end + 1 - from));
      from = end + 1;
    }
  }
  write("\n  ");
  write(std::string_view(text).substr(inside));
}

}  // namespace heapspy::report
