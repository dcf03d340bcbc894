// A merged report as JSON: schema heapspy.report/1 with its keys, null where a value makes no sense over several processes,
// and `processes`, which the report of one trace has not.
#pragma once
#include <nlohmann/json.hpp>

#include "analyzer/report/merged.h"

namespace heapspy::report {

nlohmann::ordered_json merged_json(const MergedReport&);

}  // namespace heapspy::report
