// A report as one page of HTML: the text's words and figures, the exact bytes behind each of them, call stacks and the call
// tree to unfold, the course over time as a drawing. One file, without scripts, that loads nothing.
#pragma once
#include <string>

#include "analyzer/report/merged.h"
#include "analyzer/report/report.h"

namespace heapspy::report {

// The call trees are right where the report holds every site (SiteOptions::all).
std::string report_html(const Report&);
std::string merged_html(const MergedReport&);

}  // namespace heapspy::report
