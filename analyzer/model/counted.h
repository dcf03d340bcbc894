// Figures of mode `count`: what each thread counted of its calls. No block is known, so no lives, no live bytes, no order.
#pragma once
#include <vector>

#include "analyzer/model/size_histogram.h"
#include "analyzer/model/thread_stats.h"
#include "analyzer/model/totals.h"
#include "heapspy/format/layout.h"

namespace heapspy::model {

struct CountedFigures {
  std::uint64_t events = 0;            // calls
  Totals totals;                       // no live bytes, no peak, no temporary; live_blocks is exact where not `negative`
  bool negative = false;               // more was freed than allocated: blocks of a parent
  std::vector<ThreadFigures> threads;  // by id; the last may stand for those that ended long ago
  std::vector<SizeRow> sizes;
};

CountedFigures counted_figures(const std::vector<format::ThreadCounters>&);

}  // namespace heapspy::model
