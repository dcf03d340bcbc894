// A report as one page of HTML: the text's words and figures, the exact bytes behind each of them, call stacks and the call
// tree to unfold, the course over time as a drawing. One file, without scripts, that loads nothing.
#pragma once
#include <string>
#include <vector>

#include "analyzer/report/merged.h"
#include "analyzer/report/report.h"

namespace heapspy::report {

// The call trees are right where the report holds every site (SiteOptions::all). `trials`: lines of text, a heading first,
// about what was tried besides; they stand below what the findings say. Empty: nothing was.
std::string report_html(const Report&, const std::vector<std::string>& trials = {});
std::string merged_html(const MergedReport&);

}  // namespace heapspy::report
