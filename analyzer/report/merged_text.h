// A merged report for people: the processes first, then what they did together.
#pragma once
#include <string>
#include <vector>

#include "analyzer/report/merged.h"
#include "analyzer/report/report_text.h"

namespace heapspy::report {

// Lines without newlines. By::arena is not for this: arenas are of one process.
std::vector<std::string> merged_text(const MergedReport&, const TextOptions&);

}  // namespace heapspy::report
