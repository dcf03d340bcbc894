// malloc_trim cuts the main arena's top only. After one free of a large mapped block the trim threshold may be tens of
// MiB, and each secondary arena may keep a free top of that size for ever.
#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {

std::optional<Finding> secondary_tops(const Facts& facts) {
  if (!facts.glibc) return std::nullopt;
  std::uint64_t bytes = 0, tops = 0, arenas = 0;
  for (const ArenaFacts& arena : facts.arenas) {
    if (arena.main || !arena.glibc_heap || !arena.top_bytes || !arena.cached_bytes) continue;
    if (*arena.top_bytes == 0 || *arena.cached_bytes == 0) continue;
    bytes += *arena.cached_bytes;
    tops += std::min(*arena.top_bytes, *arena.cached_bytes);
    arenas++;
  }
  if (!worth(facts, bytes)) return std::nullopt;

  Finding finding;
  finding.kind = "secondary_tops";
  finding.title = "Free tops of secondary arenas";
  finding.severity = severity_of(facts, bytes);
  finding.bytes = bytes;
  finding.text = fmt::format(
      "Free memory in {} that malloc_trim leaves alone: their free tops (at most {} of it) and thread caches. glibc returns a "
      "top by itself only when it grows beyond the trim threshold",
      plural_text(arenas, "secondary arena", "secondary arenas"), bytes_text(tops));
  finding.text += facts.trim_threshold_setting ? fmt::format(" (here {}).", *facts.trim_threshold_setting)
                                               : ", which rises to twice the largest mapped block ever freed (64 MiB at most).";
  if (!facts.trim_threshold_setting)
    finding.to_try =
        "MALLOC_TRIM_THRESHOLD_=131072, set before start; measure it: heapspy compare --with default,trim_threshold=128KiB -- "
        "CMD";
  finding.evidence = {{"cached_bytes", bytes}, {"top_bytes_at_most", tops}, {"secondary_arenas", arenas}};
  return finding;
}

}  // namespace heapspy::findings
