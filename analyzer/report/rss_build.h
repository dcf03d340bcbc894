// The ledger of a moment as a report shows it.
#pragma once
#include <string>

#include "analyzer/model/moment.h"
#include "analyzer/report/report.h"
#include "analyzer/trace/reader.h"

namespace heapspy::report {

RssReport rss_report(const model::Moment&, const std::string& trace_path);
// Of a snapshot; nothing but the parts.
LedgerReport ledger_report(const model::Moment&, const trace::Reader&);

}  // namespace heapspy::report
