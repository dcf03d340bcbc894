#include <algorithm>
#include <map>

#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

void rank(std::vector<Finding>& found) {
  // What is part of another verdict follows it where they are of the same size.
  std::stable_sort(found.begin(), found.end(), [](const Finding& a, const Finding& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    return a.part_of.empty() && !b.part_of.empty();
  });
}

// What is part of verdicts that were not made is a whole.
void leave_out_absent(std::vector<Finding>& found) {
  for (Finding& part : found)
    std::erase_if(part.part_of, [&](const std::string& kind) {
      return std::none_of(found.begin(), found.end(), [&](const Finding& whole) { return whole.kind == kind; });
    });
}

}  // namespace

std::vector<Finding> judge(const Facts& facts) {
  std::vector<Finding> found;
  for (const auto verdict : kVerdicts)
    if (auto finding = verdict(facts)) {
      if (!finding->whole_run) finding->moment = facts.moment;
      found.push_back(std::move(*finding));
    }
  leave_out_absent(found);
  rank(found);
  return found;
}

std::vector<Finding> larger_of(std::vector<Finding> one, std::vector<Finding> other) {
  // `plug` and `retained` share the trimmable bytes between them, so both come from the same moment.
  const auto family = [](const Finding& finding) { return finding.kind == "plug" ? std::string("retained") : finding.kind; };
  std::map<std::string, std::uint64_t> in_one, in_other;
  for (const Finding& finding : one) in_one[family(finding)] += finding.bytes;
  for (const Finding& finding : other) in_other[family(finding)] += finding.bytes;
  const auto one_is_larger = [&](const Finding& finding) {
    const std::string name = family(finding);
    return !in_other.contains(name) || (in_one.contains(name) && in_one[name] > in_other[name]);
  };
  std::vector<Finding> found;
  for (Finding& finding : one)
    if (one_is_larger(finding)) found.push_back(std::move(finding));
  for (Finding& finding : other)
    if (!one_is_larger(finding)) found.push_back(std::move(finding));
  rank(found);
  return found;
}

}  // namespace heapspy::findings
