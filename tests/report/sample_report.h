// A report made by hand, with every field set to something of its own.
#pragma once
#include "analyzer/report/report.h"

namespace heapspy::report {

Report sample_report();

}  // namespace heapspy::report
