// Facts of processes and arenas for tests of verdicts.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/findings/verdicts.h"
#include "tests/support/amounts.h"

namespace heapspy::findings {

using test::kMiB;

inline Facts process(std::uint64_t rss) {
  Facts facts;
  facts.moment = "at the end (2.0 s)";
  facts.time_s = 2.0;
  facts.pid = 77;
  facts.glibc = true;
  facts.rss_bytes = rss;
  facts.arena_limit = 16;
  facts.end_s = 2.0;
  return facts;
}

inline ArenaFacts main_heap(std::uint64_t live_bytes, std::uint64_t live_blocks, std::uint64_t trimmable,
                            std::uint64_t pinned) {
  ArenaFacts arena;
  arena.label = "main";
  arena.main = arena.glibc_heap = true;
  arena.live_bytes = live_bytes;
  arena.live_blocks = live_blocks;
  arena.trimmable_bytes = trimmable;
  arena.pinned_bytes = pinned;
  arena.cached_bytes = 0;
  arena.resident_bytes = live_bytes + trimmable + pinned;
  return arena;
}

inline ArenaFacts secondary(int number, std::uint64_t live_bytes, std::uint64_t trimmable, std::uint64_t cached) {
  ArenaFacts arena = main_heap(live_bytes, 1000, trimmable, 0);
  arena.label = "arena " + std::to_string(number);
  arena.main = false;
  arena.cached_bytes = cached;
  arena.resident_bytes = live_bytes + trimmable + cached;
  arena.threads = {"pool-1-thread-" + std::to_string(number)};
  return arena;
}

inline std::vector<std::string> kinds(const std::vector<Finding>& findings) {
  std::vector<std::string> result;
  for (const Finding& each : findings) result.push_back(each.kind);
  return result;
}

// examples/fragmentation: 500 000 blocks of 1 KiB, then one of 1 byte; all but the byte are freed.
inline Facts fragmentation() {
  Facts facts = process(498 * kMiB);
  facts.arenas = {main_heap(1, 1, 496 * kMiB, 4096)};
  facts.arenas[0].plug = {0x5555aaaa04a0, 1, "fragmentation", 0.047, 496 * kMiB};
  facts.live_bytes = 1;
  facts.peak_live_bytes = 492 * kMiB;
  return facts;
}

}  // namespace heapspy::findings
