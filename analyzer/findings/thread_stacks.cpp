// A stack keeps what its deepest call once used, as long as its thread lives: not malloc's, however much it looks like it.
#include <fmt/core.h>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

constexpr double kShare = 0.2;  // of RSS; below, it is what threads cost anywhere
constexpr std::uint64_t kLeast = 8ull << 20;
constexpr double kHuge = 0.5;  // of the stacks: then it is the kernel's huge pages that were touched, not the stacks

}  // namespace

std::optional<Finding> thread_stacks(const Facts& facts) {
  const GroupFacts* stacks = group_named(facts, kStacksGroup);
  if (!stacks || !facts.rss_bytes || stacks->bytes < kLeast || !stacks->mappings) return std::nullopt;
  if (static_cast<double>(stacks->bytes) < kShare * static_cast<double>(*facts.rss_bytes)) return std::nullopt;

  Finding finding;
  finding.kind = "thread_stacks";
  finding.title = "Thread stacks";
  finding.severity = severity_of(facts, stacks->bytes);
  finding.bytes = stacks->bytes;
  finding.part_of = {"not_malloc"};
  const bool one = stacks->mappings == 1;
  finding.text = fmt::format(
      "{}: a stack keeps what its deepest call once used, as long as its thread lives. Not malloc's: no allocator setting and "
      "no "
      "trim changes it.",
      one ? fmt::format("The stack of the only thread holds {}", bytes_text(stacks->bytes))
          : fmt::format("{} thread stacks hold {}, {} each on average", count_text(stacks->mappings), bytes_text(stacks->bytes),
                        bytes_text(stacks->bytes / stacks->mappings)));
  finding.to_try = one ? "a smaller depth of recursion, or a smaller buffer on the stack"
                       : "fewer threads, or smaller stacks, set before start: pthread_attr_setstacksize, ulimit -s, java -Xss";
  if (static_cast<double>(stacks->huge_bytes) >= kHuge * static_cast<double>(stacks->bytes)) {
    finding.text += fmt::format(" Of it, {} are huge pages: a stack of which little was ever used takes 2 MiB at a time.",
                                bytes_text(stacks->huge_bytes));
    finding.to_try =
        "transparent huge pages off for this program, set before start: prctl(PR_SET_THP_DISABLE), or "
        "/sys/kernel/mm/transparent_hugepage/enabled = madvise; or stacks that are no multiple of 2 MiB";
  }
  finding.evidence = {{"thread_stack_bytes", stacks->bytes}, {"stacks", stacks->mappings}, {"huge_bytes", stacks->huge_bytes}};
  return finding;
}

}  // namespace heapspy::findings
