#include "analyzer/report/diff_json.h"

#include <algorithm>
#include <cmath>

#include "analyzer/report/json_values.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kSites = 1000;

Json number(const std::optional<double>& value, Unit unit) {
  if (!value || !std::isfinite(*value)) return nullptr;
  if (unit == Unit::seconds) return *value;
  return static_cast<std::int64_t>(std::llround(*value));
}

Json compared_json(const Compared& figure) {
  return {{"before", number(figure.before, figure.unit)},
          {"after", number(figure.after, figure.unit)},
          {"change", number(figure.change(), figure.unit)}};
}

Json side_json(const Report& report) {
  Json environment = Json::object();
  for (const auto& [name, value] : report.process.environment) environment[name] = value;
  const auto moment = [](const MomentReport& at) -> Json {
    return {{"time_s", number(at.time_s, Unit::seconds)}, {"why", at.why}};
  };
  return {{"trace", report.trace.path},
          {"pid", report.process.pid},
          {"command", report.process.command},
          {"start_time", report.process.start_time},
          {"duration_s", number(report.process.duration_s, Unit::seconds)},
          {"end", report.process.end.empty() ? Json() : Json(report.process.end)},
          {"complete", report.trace.complete},
          {"events", report.trace.events},
          {"lost_events", report.trace.lost_events},
          {"allocator",
           {{"name", report.process.allocator_name},
            {"version", report.process.allocator_version ? Json(*report.process.allocator_version) : Json()}}},
          {"environment", std::move(environment)},
          {"at", moment(report.at)},
          {"end_at", moment(report.end_at)}};
}

}  // namespace

Json diff_json(const Diff& diff) {
  Json json;
  json["schema"] = "heapspy.diff/1";
  json["before"] = side_json(diff.before);
  json["after"] = side_json(diff.after);
  json["settings"] = Json::array();
  for (const ComparedSetting& each : diff.settings)
    json["settings"].push_back({{"name", each.name},
                                {"before", each.before ? Json(*each.before) : Json()},
                                {"after", each.after ? Json(*each.after) : Json()}});
  json["totals"] = Json::object();
  json["arenas"] = Json::object();
  json["rss"] = Json::object();
  for (const Compared& figure : diff.figures) {
    Json* at = &json;
    for (const std::string& step : figure.path) at = &(*at)[step];
    *at = compared_json(figure);
  }
  json["threads"] = Json::array();
  for (const ComparedThreads& each : diff.threads) {
    Json thread = {{"name", each.name}};
    for (const Compared& figure : each.figures) thread[figure.path[0]] = compared_json(figure);
    json["threads"].push_back(std::move(thread));
  }
  json["sites"] = Json::array();
  const std::size_t shown = std::min(kSites, diff.sites.size());
  for (std::size_t i = 0; i < shown; i++) {
    const ComparedSites& each = diff.sites[i];
    Json site = {{"frames", list_json(each.frames, frame_json)}};
    for (const Compared& figure : each.figures) site[figure.path[0]] = compared_json(figure);
    json["sites"].push_back(std::move(site));
  }
  json["sites_left_out"] = diff.sites.size() - shown;
  return json;
}

}  // namespace heapspy::report
