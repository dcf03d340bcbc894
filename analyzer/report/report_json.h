// A report as JSON, schema heapspy.report/1. Every key of the schema is always there; what is not known is null.
// Bytes of names that are not UTF-8 become U+FFFD when the value is dumped (dump_json).
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
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
// The same of a report's JSON that was made without its sites: they are put in one after another, since as one tree a call
// stack takes some 25 KB and there may be half a million.
void write_json(const nlohmann::ordered_json& without_sites, const std::vector<SiteReport>& sites,
                const std::function<void(std::string_view)>& write);

}  // namespace heapspy::report
