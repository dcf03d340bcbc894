// What recording itself takes of the process's memory, where it is a good part of it: RSS without heapspy would be so much
// lower.
#include <fmt/core.h>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

constexpr double kShare = 0.1;

}  // namespace

std::optional<Finding> recorder(const Facts& facts) {
  std::uint64_t bytes = 0;
  for (const PartFacts& part : facts.parts)
    if (part.kind == PartKind::recorder) bytes += part.bytes;
  if (!worth(facts, bytes) || !facts.rss_bytes) return std::nullopt;
  if (static_cast<double>(bytes) < kShare * static_cast<double>(*facts.rss_bytes)) return std::nullopt;

  Finding finding;
  finding.kind = "recorder";
  finding.title = "heapspy itself";
  finding.severity = Severity::low;
  finding.bytes = bytes;
  finding.text = fmt::format("The recorder takes {} of the {} of RSS ({}): without it the process would be so much smaller.",
                             bytes_text(bytes), bytes_text(*facts.rss_bytes), percent_text(bytes, *facts.rss_bytes));
  if (facts.threads > 1)
    finding.text += fmt::format(" Most of it is room for the events of {} threads.", count_text(facts.threads));
  finding.to_try = "HEAPSPY_MODE=sample or HEAPSPY_STACKS=none, set before start, for a smaller recorder";
  finding.evidence = {{"recorder_bytes", bytes}, {"rss_bytes", *facts.rss_bytes}, {"threads", facts.threads}};
  return finding;
}

}  // namespace heapspy::findings
