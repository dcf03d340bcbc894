// Many threads take locks of arenas at the same time: what fewer arenas would make wait. A warning, not a saving.
#include <fmt/core.h>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

// A lock of 50 ns that is wanted less often than this is hardly ever found taken.
constexpr double kCallsPerSecond = 500'000;
constexpr std::uint64_t kCalls = 20'000;

}  // namespace

bool threads_compete(const Facts& facts) {
  const ConcurrencyFacts& together = facts.concurrency;
  return facts.glibc && together.calls >= kCalls && together.threads_at_once >= 2 && together.calls_per_s >= kCallsPerSecond &&
         facts.secondary_arenas > 0;
}

std::optional<Finding> contention(const Facts& facts) {
  if (!threads_compete(facts)) return std::nullopt;
  const ConcurrencyFacts& together = facts.concurrency;
  Finding finding;
  finding.kind = "contention";
  finding.title = "Threads that allocate at once";
  finding.severity = Severity::low;
  finding.whole_run = true;
  finding.text = fmt::format(
      "{} calls that no thread cache answers come from {:.1f} threads within the same millisecond, {} of them a second; each "
      "takes "
      "its arena's lock. ",
      count_text(together.calls), together.threads_at_once, count_text(static_cast<std::uint64_t>(together.calls_per_s)));
  if (facts.arena_max_setting) {
    finding.text += fmt::format("With {} they wait for each other.", *facts.arena_max_setting);
    finding.to_try = "more arenas or another allocator; measure the lock waits: heapspy compare --with default,jemalloc -- CMD";
  } else {
    finding.text +=
        "They hardly wait, since each has an arena; with one or two arenas for all they would. Fewer arenas are not advised "
        "here.";
    finding.to_try = "before anybody limits arenas, measure lock waits: heapspy replay TRACE --with default,jemalloc";
  }
  finding.evidence = {{"calls_together", together.calls},
                      {"calls_per_s", together.calls_per_s},
                      {"threads_at_once", together.threads_at_once},
                      {"secondary_arenas", facts.secondary_arenas}};
  return finding;
}

}  // namespace heapspy::findings
