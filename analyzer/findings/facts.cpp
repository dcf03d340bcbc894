#include "analyzer/findings/facts.h"

namespace heapspy::findings {
namespace {

constexpr double kHighShare = 0.25, kMediumShare = 0.05;
// One block is said to explain an arena's free pages where at least this share of them lies under it.
constexpr double kPlugShare = 0.5;

double share(const Facts& facts, std::uint64_t bytes) {
  if (!facts.rss_bytes || *facts.rss_bytes == 0) return 0;
  return static_cast<double>(bytes) / static_cast<double>(*facts.rss_bytes);
}

}  // namespace

bool worth(const Facts& facts, std::uint64_t bytes) {
  if (bytes < kWorthBytes) return false;
  return !facts.rss_bytes || share(facts, bytes) >= kWorthShare;
}

Severity severity_of(const Facts& facts, std::uint64_t bytes) {
  const double part = share(facts, bytes);
  return part >= kHighShare ? Severity::high : part >= kMediumShare ? Severity::medium : Severity::low;
}

bool plugged(const ArenaFacts& arena) {
  if (!arena.glibc_heap || !arena.plug || !arena.trimmable_bytes || *arena.trimmable_bytes < kWorthBytes) return false;
  return static_cast<double>(arena.plug->free_below_bytes) >= kPlugShare * static_cast<double>(*arena.trimmable_bytes);
}

std::optional<std::uint64_t> free_bytes(const Facts& facts) {
  std::uint64_t sum = 0;
  bool known = false;
  for (const ArenaFacts& arena : facts.arenas) {
    if (!arena.trimmable_bytes || !arena.pinned_bytes || !arena.cached_bytes) continue;
    known = true;
    sum += *arena.trimmable_bytes + *arena.pinned_bytes + *arena.cached_bytes;
  }
  if (!known) return std::nullopt;
  return sum;
}

}  // namespace heapspy::findings
