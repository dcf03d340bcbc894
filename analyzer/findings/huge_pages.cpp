// The kernel gives memory 2 MiB at a time where transparent huge pages are on: one byte touched makes 2 MiB resident. That is a
// disease where most of a heap lies free in such pages. Stacks are another verdict's (thread_stacks).
#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

constexpr double kFree = 0.5;  // of what malloc holds in RAM

}  // namespace

std::optional<Finding> huge_pages(const Facts& facts) {
  const GroupFacts* heaps = group_named(facts, kMallocGroup);
  const auto free = free_bytes(facts);
  if (!heaps || !free || heaps->bytes == 0) return std::nullopt;
  // Which of the huge pages are the free ones is not known: at least so many bytes of them are.
  const std::uint64_t used = heaps->bytes - std::min(heaps->bytes, *free);
  const std::uint64_t bytes = heaps->huge_bytes - std::min(heaps->huge_bytes, used);
  if (!worth(facts, bytes) || static_cast<double>(*free) < kFree * static_cast<double>(heaps->bytes)) return std::nullopt;

  Finding finding;
  finding.kind = "huge_pages";
  finding.title = "Huge pages, little used";
  finding.severity = severity_of(facts, bytes);
  finding.bytes = bytes;
  finding.part_of = {"plug", "retained", "pinned", "secondary_tops", "thread_caches"};
  finding.text = fmt::format(
      "{} of malloc's {} are transparent huge pages, and at least {} of those are free: where one byte is touched, 2 MiB "
      "become "
      "resident. No setting of arenas changes it.",
      bytes_text(heaps->huge_bytes), bytes_text(heaps->bytes), bytes_text(bytes));
  finding.to_try =
      "transparent huge pages off for this program, set before start: without glibc.malloc.hugetlb=1, and with "
      "/sys/kernel/mm/transparent_hugepage/enabled = madvise or prctl(PR_SET_THP_DISABLE); it costs TLB misses";
  finding.evidence = {{"huge_bytes", heaps->huge_bytes}, {"malloc_bytes", heaps->bytes}, {"free_bytes", *free}};
  return finding;
}

}  // namespace heapspy::findings
