// `--fail-if EXPR`: a condition on one figure of a diff.
//
//   EXPR  = PATH OP VALUE                  spaces around OP do not matter
//   PATH  = peak_rss | end_rss | a figure of heapspy.diff/1 by its names: totals.live_bytes, arenas.secondary.count,
//           rss.total_bytes, rss.parts.thread stacks, rss.end.total_bytes …
//   OP    = > | >= | < | <=
//   VALUE = NUMBER[UNIT]                   the figure after:       peak_rss > 1GiB
//         | NUMBERx                        after, in times before: peak_rss > 1.1x
//         | (+|-)NUMBER[UNIT]              the change:             totals.live_bytes > +64MiB
//         | (+|-)NUMBER%                   the change, in percent of before: rss.total_bytes > +10%
//   UNIT  = B | KiB | MiB | GiB | k | m | g
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

#include "analyzer/report/diff.h"

namespace heapspy::report {

// what() is one line: what cannot be read, and what would be.
struct BadCondition : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The figure is not known in one of the traces.
struct UnknownFigure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Condition {
  enum class Compare { greater, greater_equal, less, less_equal };
  enum class Against { absolute, times_before, change, change_percent };
  std::string text;  // as given
  std::string path;  // "rss.total_bytes" for "peak_rss"
  Compare compare = Compare::greater;
  Against against = Against::absolute;
  double value = 0;
};

// Throws BadCondition.
Condition parse_condition(std::string_view text);
// Throws BadCondition where the diff has no such figure, UnknownFigure where it is not known.
bool holds(const Condition&, const Diff&);
// "peak_rss>1.1x: 752.0 MiB after 302.0 MiB": what was compared, for the line that says so.
std::string explain(const Condition&, const Diff&);

}  // namespace heapspy::report
