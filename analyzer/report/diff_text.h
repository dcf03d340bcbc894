// A diff for people: what was set differently, what changed most, then the figures side by side.
#pragma once
#include <string>
#include <vector>

#include "analyzer/report/diff.h"
#include "analyzer/report/screen.h"

namespace heapspy::report {

// At most kWidth columns; lines without newlines.
std::vector<std::string> diff_text(const Diff&, const Screen&);

}  // namespace heapspy::report
