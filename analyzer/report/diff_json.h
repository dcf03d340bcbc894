// A diff as JSON, schema heapspy.diff/1: each figure is {before, after, change}, null where it is not known.
#pragma once
#include <nlohmann/json.hpp>

#include "analyzer/report/diff.h"

namespace heapspy::report {

nlohmann::ordered_json diff_json(const Diff&);

}  // namespace heapspy::report
