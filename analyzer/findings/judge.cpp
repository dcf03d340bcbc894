#include <algorithm>

#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {

std::vector<Finding> judge(const Facts& facts) {
  std::vector<Finding> found;
  for (const auto verdict : kVerdicts)
    if (auto finding = verdict(facts)) {
      finding->evidence.insert(finding->evidence.begin(), {"moment", facts.moment});
      found.push_back(std::move(*finding));
    }
  // What is part of another verdict follows it where they are of the same size.
  std::stable_sort(found.begin(), found.end(), [](const Finding& a, const Finding& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    return a.part_of.empty() && !b.part_of.empty();
  });
  return found;
}

}  // namespace heapspy::findings
