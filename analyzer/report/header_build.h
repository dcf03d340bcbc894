// What a trace says of itself and of its process, apart from all that is counted from its events.
#pragma once
#include "analyzer/model/heap_model.h"
#include "analyzer/report/report.h"
#include "analyzer/trace/reader.h"

namespace heapspy::report {

// After the events were read: damage is found meanwhile.
TraceReport trace_report(const trace::Reader&, const model::Figures&);
ProcessReport process_report(const trace::Reader&, const model::Figures&);

}  // namespace heapspy::report
