// A report in five lines, for the end of `heapspy record`.
#pragma once
#include <string>
#include <vector>

#include "analyzer/report/report.h"

namespace heapspy::report {

// At most five lines of at most kWidth columns: how it went, what is missing, where RSS was, and the weightiest verdicts.
std::vector<std::string> five_lines(const Report&);

}  // namespace heapspy::report
