// malloc_trim cuts the main arena's top only. After one free of a large mapped block the trim threshold may be tens of
// MiB, and each secondary arena may keep a free top of that size for ever.
#include <fmt/core.h>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {

std::optional<Finding> secondary_tops(const Facts& facts) {
  if (!facts.glibc) return std::nullopt;
  std::uint64_t bytes = 0, arenas = 0;
  for (const ArenaFacts& arena : facts.arenas) {
    if (!arena.secondary_top_bytes || *arena.secondary_top_bytes == 0) continue;
    bytes += *arena.secondary_top_bytes;
    arenas++;
  }
  if (!worth(facts, bytes)) return std::nullopt;

  Finding finding;
  finding.kind = "secondary_tops";
  finding.title = "Free tops of secondary arenas";
  finding.severity = severity_of(facts, bytes);
  finding.bytes = bytes;
  finding.text = fmt::format(
      "Resident free tops of {}, which malloc_trim leaves alone. glibc returns a top by itself only when it grows beyond the "
      "trim threshold",
      plural_text(arenas, "secondary arena", "secondary arenas"));
  finding.text += facts.trim_threshold_setting ? fmt::format(" (here {}).", *facts.trim_threshold_setting)
                                               : ", which rises to twice the largest mapped block ever freed (64 MiB at most).";
  if (!facts.trim_threshold_setting)
    finding.to_try =
        "MALLOC_TRIM_THRESHOLD_=131072, set before start; measure it: heapspy compare --with default,trim_threshold=128KiB -- "
        "CMD";
  finding.evidence = {{"secondary_top_bytes", bytes}, {"secondary_arenas", arenas}};
  return finding;
}

}  // namespace heapspy::findings
