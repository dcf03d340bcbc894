// A thread keeps up to seven freed blocks of each size up to 1032 bytes for itself (glibc 2.26 and later, malloc.c: tcache).
// They are not merged with their neighbours, and malloc_trim returns no page that one lies on. When the thread ends they go
// back to their arenas.
#include <fmt/core.h>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {

std::optional<Finding> thread_caches(const Facts& facts) {
  if (!facts.glibc) return std::nullopt;
  std::uint64_t bytes = 0, arenas = 0;
  for (const ArenaFacts& arena : facts.arenas) {
    if (!arena.thread_cache_bytes || *arena.thread_cache_bytes == 0) continue;
    bytes += *arena.thread_cache_bytes;
    arenas++;
  }
  if (!worth(facts, bytes)) return std::nullopt;

  Finding finding;
  finding.kind = "thread_caches";
  finding.title = "Thread caches";
  finding.severity = severity_of(facts, bytes);
  finding.bytes = bytes;
  finding.text = fmt::format(
      "Free pages in {} that malloc_trim leaves alone, because on each lies a freed block that a thread keeps for itself: up "
      "to 7 "
      "of each size up to 1032 bytes, until the thread ends.",
      plural_text(arenas, "arena", "arenas"));
  finding.to_try =
      "GLIBC_TUNABLES=glibc.malloc.tcache_count=1, set before start; measure what it saves and costs: heapspy compare --with "
      "default,tcache_count=1 -- CMD";
  finding.evidence = {{"thread_cache_bytes", bytes}, {"arenas", arenas}};
  return finding;
}

}  // namespace heapspy::findings
