#include "analyzer/report/rss_json.h"

namespace heapspy::report {
namespace {

Json part_json(const PartReport& part) {
  return {
      {"name", part.name}, {"bytes", part.bytes}, {"details", list_json(part.details, [](const DetailReport& detail) -> Json {
                                                     return {{"name", detail.name}, {"bytes", detail.bytes}};
                                                   })}};
}

Json group_json(const GroupReport& group) {
  return {{"name", group.name},
          {"mappings", group.mappings},
          {"bytes", group.bytes},
          {"swap_bytes", group.swap_bytes},
          {"huge_bytes", group.huge_bytes}};
}

Json cgroup_json(const std::optional<CgroupReport>& cgroup) {
  if (!cgroup) return nullptr;
  return {{"current_bytes", maybe(cgroup->current_bytes)},
          {"limit_bytes", maybe(cgroup->limit_bytes)},
          {"peak_bytes", maybe(cgroup->peak_bytes)},
          {"anonymous_bytes", maybe(cgroup->anonymous_bytes)},
          {"file_bytes", maybe(cgroup->file_bytes)},
          {"kernel_bytes", maybe(cgroup->kernel_bytes)},
          {"shared_bytes", maybe(cgroup->shared_bytes)},
          {"swap_bytes", maybe(cgroup->swap_bytes)},
          {"beyond_rss_bytes", maybe(cgroup->beyond_rss_bytes)}};
}

Json pin_size_json(const PinsReport::Row& row) {
  const auto bytes = [](double value) { return static_cast<std::uint64_t>(value); };
  return {
      {"from", bytes(row.from)}, {"to", row.to ? Json(bytes(*row.to)) : Json()}, {"blocks", row.blocks}, {"bytes", row.bytes}};
}

Json pin_age_json(const PinsReport::Row& row) {
  return {{"from_s", row.from}, {"to_s", maybe(row.to)}, {"blocks", row.blocks}, {"bytes", row.bytes}};
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

Json rss_json(const RssReport& rss) {
  return {{"total_bytes", maybe(rss.total_bytes)},
          {"parts", list_json(rss.parts, part_json)},
          {"notes", rss.notes},
          {"groups", list_json(rss.groups, group_json)},
          {"swap_bytes", maybe(rss.swap_bytes)},
          {"huge_bytes", maybe(rss.huge_bytes)},
          {"page_table_bytes", maybe(rss.page_table_bytes)},
          {"cgroup", cgroup_json(rss.cgroup)}};
}

Json ledger_json(const LedgerReport& ledger) {
  return {{"time_s", ledger.time_s},
          {"total_bytes", ledger.total_bytes},
          {"live_bytes", ledger.live_bytes},
          {"swap_bytes", ledger.swap_bytes},
          {"parts", list_json(ledger.parts, [](const PartReport& part) -> Json {
             return {{"name", part.name}, {"bytes", part.bytes}};
           })}};
}

Json pins_json(const PinsReport& pins) {
  return {{"bytes", maybe(pins.bytes)},
          {"blocks", list_json(pins.blocks,
                               [](const PinsReport::Block& block) -> Json {
                                 return {{"address", block.address},   {"size", block.size},
                                         {"bytes", block.bytes},       {"thread", block.thread},
                                         {"site", block.site},         {"where", text_or_null(block.where)},
                                         {"age_s", maybe(block.age_s)}};
                               })},
          {"sizes", list_json(pins.sizes, pin_size_json)},
          {"ages", list_json(pins.ages, pin_age_json)},
          {"if_freed", list_json(pins.let_go, [](const PinsReport::LetGo& each) -> Json {
             return {{"site", each.site},
                     {"where", text_or_null(each.where)},
                     {"blocks", each.blocks},
                     {"live_bytes", each.live_bytes},
                     {"returned_bytes", each.returned_bytes}};
           })}};
}

}  // namespace heapspy::report
