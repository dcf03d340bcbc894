// What verdicts are told: figures of one moment, without the trace behind them.
#pragma once
#include "analyzer/findings/facts.h"
#include "analyzer/model/heap_model.h"
#include "analyzer/report/report.h"
#include "analyzer/trace/reader.h"

namespace heapspy::report {

// `report`: with everything that is of no moment; `shown`: the moment as the report names it. Call stacks are added by
// site_facts.h.
findings::Facts facts_of(const Report& report, const MomentReport& shown, const model::Figures&, const model::Moment&,
                         const trace::Reader&);
// The program stopped recording for a while (heapspy_stop): calls in between are not known.
bool was_paused(const model::Figures&);

}  // namespace heapspy::report
