// Holds what the threads of mode `full` counted of their calls against the events that the trace has.
#pragma once
#include <vector>

#include "analyzer/model/thread_stats.h"
#include "analyzer/trace/reader.h"

namespace heapspy::model {

// Tells the reader how many calls were counted that are not among `decoded`: they are lost. Nothing where there are no counters
// or the process still runs. Only what is missing counts: a process that is killed has written its last event and may not have
// counted it.
void check_counters(const trace::Reader&, const std::vector<ThreadFigures>& decoded);

}  // namespace heapspy::model
