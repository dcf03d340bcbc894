// Large blocks that came from a heap because the free of one had raised the threshold above which blocks are mappings of their
// own. A fixed threshold keeps them out, and then they leave the process when they are freed.
#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {

std::optional<Finding> dynamic_threshold(const Facts& facts) {
  if (!facts.glibc || facts.trim_threshold_setting || !facts.threshold) return std::nullopt;
  std::uint64_t bytes = 0;
  for (const ArenaFacts& arena : facts.arenas) bytes += arena.trimmable_large_bytes;
  if (!worth(facts, bytes)) return std::nullopt;

  const ThresholdFacts& threshold = *facts.threshold;
  Finding finding;
  finding.kind = "dynamic_threshold";
  finding.title = "Dynamic threshold";
  finding.severity = severity_of(facts, bytes);
  finding.bytes = bytes;
  finding.part_of = {"plug", "retained"};
  finding.text = fmt::format(
      "Free pages whose last blocks were of 128 KiB and more. At first each such block is a mapping of its own that leaves "
      "when it "
      "is freed; the free of one of {}{} raised that threshold to {} and the trim threshold to {}, and since then they come "
      "from "
      "the heaps and stay there ({} did).",
      bytes_text(threshold.block_bytes), threshold.time_s ? " at " + seconds_text(*threshold.time_s) : "",
      bytes_text(threshold.mmap_threshold_bytes), bytes_text(threshold.trim_threshold_bytes),
      plural_text(threshold.large_in_heaps, "block", "blocks"));
  finding.fix = "MALLOC_TRIM_THRESHOLD_=131072, set before start (set later, it changes nothing that is kept already)";
  finding.fix_saves_bytes = bytes;
  finding.cost = fmt::format("{} become mappings of their own: two system calls and fresh pages each",
                             plural_text(threshold.large_in_heaps, "block", "blocks"));
  finding.to_try = "measure it: heapspy compare --with default,trim_threshold=128KiB -- CMD";
  finding.evidence = {{"large_trimmable_bytes", bytes},
                      {"raised_by_block_bytes", threshold.block_bytes},
                      {"mmap_threshold_bytes", threshold.mmap_threshold_bytes},
                      {"trim_threshold_bytes", threshold.trim_threshold_bytes},
                      {"large_blocks_in_heaps", threshold.large_in_heaps}};
  if (threshold.time_s) finding.evidence.emplace_back("raised_at_s", *threshold.time_s);
  return finding;
}

}  // namespace heapspy::findings
