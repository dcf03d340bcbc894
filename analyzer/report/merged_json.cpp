#include "analyzer/report/merged_json.h"

#include "analyzer/report/json_values.h"
#include "analyzer/report/report_json.h"

namespace heapspy::report {
namespace {

// The keys of heapspy.report/1; null is what several processes have no common value for.
Json all_null(Json json) {
  for (auto& [key, value] : json.items()) value = nullptr;
  return json;
}

Json trace_json(const MergedReport& merged) {
  Json damage = Json::array();
  for (const LeftOutTrace& each : merged.damaged)
    damage.push_back({{"trace", each.trace}, {"offset", nullptr}, {"reason", each.reason}});
  const auto left_out = [](const LeftOutTrace& each) -> Json { return {{"trace", each.trace}, {"reason", each.reason}}; };
  Json json = trace_json(merged.trace);
  json["path"] = merged.path;
  json["damage"] = std::move(damage);
  for (const char* key : {"stop", "ring", "sample", "pauses", "stacks_lost"}) json[key] = nullptr;
  json["stacks"] = merged.stacks.trace.stacks;
  json["traces"] = merged.processes.size();
  json["unreadable"] = list_json(merged.unreadable, left_out);
  json["copies"] = list_json(merged.copies, left_out);
  return json;
}

Json process_json(const MergedReport& merged) {
  Json json = all_null(process_json(ProcessReport{}));
  json["start_time"] = merged.processes[0].start_time;
  json["duration_s"] = maybe(merged.duration_s);
  return json;
}

Json named_threads_json(const NamedThreads& threads) {
  ThreadReport sums;
  sums.name = threads.name;
  sums.allocations = threads.allocations;
  sums.frees = threads.frees;
  sums.reallocations = threads.reallocations;
  sums.failed = threads.failed;
  sums.bytes_allocated = threads.bytes_allocated;
  sums.live_bytes = threads.live_bytes;
  sums.freed_by_others = threads.freed_by_others;
  sums.freed_for_others = threads.freed_for_others;
  sums.sizes = threads.sizes;
  Json json = thread_report_json(sums);
  for (const char* of_one : {"id", "tid", "names", "names_left_out"}) json[of_one] = nullptr;
  json["processes"] = threads.processes;
  json["threads"] = threads.threads;
  return json;
}

Json inherited_json(const std::optional<InheritedReport>& inherited) {
  if (!inherited) return nullptr;
  return {{"blocks_at_fork", inherited->blocks_at_fork},
          {"bytes_at_fork", inherited->bytes_at_fork},
          {"frees", inherited->frees},
          {"bytes_freed", inherited->bytes_freed},
          {"reallocations", inherited->reallocations},
          {"unmatched_frees", inherited->unmatched_frees},
          {"live_blocks", inherited->live_blocks},
          {"live_bytes", inherited->live_bytes},
          {"threads", list_json(inherited->threads, [](const InheritedReport::Thread& thread) -> Json {
             return {{"pid", thread.pid}, {"name", thread.name}, {"frees", thread.frees}, {"bytes", thread.bytes}};
           })}};
}

Json row_json(const ProcessRow& row) {
  const TotalsReport& totals = row.totals;
  return {{"trace", row.trace},
          {"pid", row.pid},
          {"ppid", row.ppid},
          {"exe", row.exe},
          {"name", row.name},
          {"start_time", row.start_time},
          {"duration_s", maybe(row.duration_s)},
          {"end", row.end},
          {"mode", row.mode},
          {"forked", row.forked},
          {"parent_pid", maybe(row.parent_pid)},
          {"size_bytes", row.size_bytes},
          {"events", row.events},
          {"lost_events", row.lost_events},
          {"damage", row.damage},
          {"complete", row.complete},
          {"threads", row.threads},
          {"allocations", totals.allocations},
          {"frees", totals.frees},
          {"reallocations", totals.reallocations},
          {"failed", totals.failed},
          {"bytes_allocated", totals.bytes_allocated},
          {"live_bytes", maybe(totals.live_bytes)},
          {"live_blocks", maybe(totals.live_blocks)},
          {"peak_live_bytes", maybe(totals.peak_live_bytes)},
          {"unknown_frees", maybe(totals.unknown_frees)},
          {"inherited_frees", maybe(totals.inherited_frees)},
          {"inherited_live_bytes", row.inherited ? Json(row.inherited->live_bytes) : Json()},
          {"inherited", inherited_json(row.inherited)},
          {"peak_rss_bytes", maybe(row.peak_rss_bytes)},
          {"end_rss_bytes", maybe(row.end_rss_bytes)},
          {"private_dirty_bytes", maybe(row.private_dirty_bytes)},
          {"shared_bytes", nullptr}};  // snapshots hold no Shared_* and no Pss
}

}  // namespace

Json merged_json(const MergedReport& merged) {
  Json json;
  json["schema"] = "heapspy.report/1";
  json["trace"] = trace_json(merged);
  json["process"] = process_json(merged);
  json["totals"] = totals_json(merged.totals);
  if (merged.totals.standard_error) json["totals"]["standard_error"]["peak_live_bytes"] = nullptr;
  json["at"] = nullptr;
  json["threads"] = list_json(merged.threads, named_threads_json);
  json["sizes"] = list_json(merged.sizes, size_json);
  json["lifetimes"] = list_json(merged.lifetimes, lifetime_json);
  json["arenas"] = nullptr;
  json["rss"] = {{"total_bytes", nullptr}, {"parts", nullptr}, {"notes", Json::array()}};
  json["timeline"] = nullptr;
  json["marks"] = nullptr;
  json["sites"] = list_json(merged.stacks.sites, site_json);
  json["sites_left_out"] = merged.stacks.sites_left_out;
  json["modules"] = list_json(merged.stacks.modules, module_json);
  json["suppressed_bytes"] = maybe(merged.stacks.suppressed_bytes);
  Json found = Json::array();
  for (const ProcessFindings& of : merged.findings)
    for (const findings::Finding& finding : of.findings) {
      Json one = finding_json(finding);
      one["pid"] = merged.processes[of.process].pid;
      one["trace"] = merged.processes[of.process].trace;
      found.push_back(std::move(one));
    }
  json["findings"] = std::move(found);
  json["end"] = nullptr;
  json["processes"] = list_json(merged.processes, row_json);
  return json;
}

}  // namespace heapspy::report
