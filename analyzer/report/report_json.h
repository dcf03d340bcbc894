// A report as JSON, schema heapspy.report/1. Every key of the schema is always there; what is not known is null.
// Bytes of names that are not UTF-8 become U+FFFD when the value is dumped (dump_json).
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyzer/report/report.h"
#include "analyzer/report/site_tree.h"

namespace heapspy::report {

nlohmann::ordered_json report_json(const Report&);
nlohmann::ordered_json finding_json(const findings::Finding&);
// {order, figure, root{name, bytes, children[…], smaller_bytes}}: `smaller_bytes` are of children with less than a thousandth
// of the whole. `sites` must be all.
nlohmann::ordered_json tree_json(const std::vector<SiteReport>& sites, TreeOrder);
// Two spaces of indent, one newline at the end; never throws for what is in strings.
std::string dump_json(const nlohmann::ordered_json&);

}  // namespace heapspy::report
