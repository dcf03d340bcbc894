// `report --json`: rss, ledgers and pins.
#pragma once
#include "analyzer/report/json_values.h"
#include "analyzer/report/report.h"

namespace heapspy::report {

Json rss_json(const RssReport&);
Json ledger_json(const LedgerReport&);
Json pins_json(const PinsReport&);

}  // namespace heapspy::report
