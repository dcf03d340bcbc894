// What the JSON of one trace and that of several write alike.
#pragma once
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "analyzer/report/report.h"

namespace heapspy::report {

using Json = nlohmann::ordered_json;

// null where it is not known.
template <typename T>
Json maybe(const std::optional<T>& value) {
  if (!value) return nullptr;
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(*value)) return nullptr;
  return *value;
}

template <typename List, typename Write>
Json list_json(const List& list, Write write) {
  Json result = Json::array();
  for (const auto& each : list) result.push_back(write(each));
  return result;
}

Json trace_json(const TraceReport&);
Json process_json(const ProcessReport&);
Json thread_report_json(const ThreadReport&);
Json error_json(const std::optional<StandardErrorReport>&);
Json totals_json(const TotalsReport&);
Json size_json(const SizeReport&);
Json thread_size_json(const SizeReport&);  // what is kept per thread
Json lifetime_json(const LifetimeReport&);
Json frame_json(const FrameReport&);
Json site_json(const SiteReport&);
Json module_json(const ModuleReport&);

}  // namespace heapspy::report
