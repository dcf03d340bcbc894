#include "analyzer/report/rss_build.h"

#include <charconv>
#include <string_view>

#include "analyzer/ledger/rss_ledger.h"
#include "analyzer/report/status_text.h"

namespace heapspy::report {
namespace {

Bytes number(std::string_view text) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{}) return std::nullopt;  // "max", and what is not there
  return value;
}

// A file of the cgroup by its name in version 2, or in version 1.
Bytes file_number(const std::map<std::string, std::string>& files, const char* name, const char* name_1) {
  for (const char* each : {name, name_1})
    if (const auto at = files.find(each); at != files.end()) return number(at->second);
  return std::nullopt;
}

// A line "key 1234" of memory.stat.
Bytes stat_number(const std::map<std::string, std::string>& files, std::string_view key) {
  const auto at = files.find("memory.stat");
  if (at == files.end()) return std::nullopt;
  std::string_view rest = at->second;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ')
      return number(line.substr(key.size() + 1));
  }
  return std::nullopt;
}

std::optional<CgroupReport> cgroup_report(const model::Moment& moment) {
  const auto& files = moment.cgroup;
  CgroupReport cgroup;
  cgroup.current_bytes = file_number(files, "memory.current", "memory.usage_in_bytes");
  if (!cgroup.current_bytes) return std::nullopt;
  cgroup.limit_bytes = file_number(files, "memory.max", "memory.limit_in_bytes");
  if (cgroup.limit_bytes && *cgroup.limit_bytes >= std::uint64_t{1} << 62) cgroup.limit_bytes.reset();  // version 1: no limit
  cgroup.peak_bytes = file_number(files, "memory.peak", "memory.max_usage_in_bytes");
  const bool version_1 = files.contains("memory.usage_in_bytes");
  cgroup.anonymous_bytes = stat_number(files, version_1 ? "rss" : "anon");
  cgroup.file_bytes = stat_number(files, version_1 ? "cache" : "file");
  cgroup.kernel_bytes = stat_number(files, "kernel");
  cgroup.shared_bytes = stat_number(files, "shmem");
  cgroup.swap_bytes = file_number(files, "memory.swap.current", "");
  if (moment.rss_bytes && *cgroup.current_bytes >= *moment.rss_bytes)
    cgroup.beyond_rss_bytes = *cgroup.current_bytes - *moment.rss_bytes;
  return cgroup;
}

}  // namespace

RssReport rss_report(const model::Moment& moment, const std::string& trace_path) {
  RssReport rss;
  if (!moment.rss_bytes) return rss;
  const ledger::RssLedger from = ledger::rss_ledger(moment, trace_path);
  rss.total_bytes = from.total_bytes;
  for (const ledger::Part& part : from.parts) {
    rss.parts.push_back({std::string(name(part.kind)), part.bytes});
    for (const ledger::Detail& detail : part.details) rss.parts.back().details.push_back({detail.name, detail.bytes});
  }
  for (const ledger::Group& group : from.groups)
    rss.groups.push_back({group.name, group.mappings, group.bytes, group.swap_bytes, group.huge_bytes});
  rss.swap_bytes = from.swap_bytes;
  rss.huge_bytes = from.huge_bytes;
  rss.notes = from.notes;
  rss.recorder_dirty_bytes = from.recorder_dirty_bytes;
  rss.page_table_bytes = status_bytes(moment.status_text, "VmPTE");
  rss.cgroup = cgroup_report(moment);
  return rss;
}

LedgerReport ledger_report(const model::Moment& moment, const trace::Reader& reader) {
  LedgerReport ledger;
  ledger.time_s = reader.clock().seconds(moment.tick);
  ledger.live_bytes = moment.live_bytes;
  const ledger::RssLedger from = ledger::rss_ledger(moment, reader.path(), false);
  ledger.total_bytes = from.total_bytes;
  for (const ledger::Part& part : from.parts) ledger.parts.push_back({std::string(name(part.kind)), part.bytes});
  for (const trace::Mapping& mapping : moment.mappings) ledger.swap_bytes += mapping.swap_bytes;
  return ledger;
}

}  // namespace heapspy::report
