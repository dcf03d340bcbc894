// Words for when something was so.
#pragma once
#include <string>

#include "analyzer/report/report.h"

namespace heapspy::report {

std::string moment_text(const MomentReport&);         // of RSS: "at its peak (9.8 s)"
std::string moment_of_rss_text(const MomentReport&);  // of all else: "at the RSS peak (9.8 s)"
// Of RSS, where `at` and the end may be one snapshot: "at its peak and the end (9.8 s)".
std::string moments_text(const Report&);
bool at_is_end(const Report&);  // they are one snapshot

}  // namespace heapspy::report
