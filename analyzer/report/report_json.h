// A report as JSON, schema heapspy.report/1. Every key of the schema is always there; what is not known is null.
// Bytes of names that are not UTF-8 become U+FFFD when the value is dumped (dump_json).
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "analyzer/report/report.h"

namespace heapspy::report {

nlohmann::ordered_json report_json(const Report&);
nlohmann::ordered_json finding_json(const findings::Finding&);
// Two spaces of indent, one newline at the end; never throws for what is in strings.
std::string dump_json(const nlohmann::ordered_json&);

}  // namespace heapspy::report
