#include "analyzer/findings/facts.h"

#include <algorithm>

namespace heapspy::findings {
namespace {

constexpr double kHighShare = 0.25, kMediumShare = 0.05;
constexpr double kPlugShare = 0.5;  // "most": see plugged_arena
// What runtimes keep at the bottom of a heap (stdio buffers, libstdc++'s emergency pool, the loader's) is fewer blocks.
constexpr std::uint64_t kFewBlocks = 32;

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

const ArenaFacts* plugged_arena(const Facts& facts) {
  std::uint64_t all = 0;
  const ArenaFacts* most = nullptr;
  for (const ArenaFacts& arena : facts.arenas) {
    if (!arena.glibc_heap || !arena.trimmable_bytes) continue;
    all += *arena.trimmable_bytes;
    if (!most || *arena.trimmable_bytes > *most->trimmable_bytes) most = &arena;
  }
  if (!most || !most->plug || most->live_blocks > kFewBlocks) return nullptr;
  const auto most_of = [](std::uint64_t part, std::uint64_t whole) {
    return static_cast<double>(part) >= kPlugShare * static_cast<double>(whole);
  };
  return most_of(*most->trimmable_bytes, all) && most_of(most->plug->free_below_bytes, *most->trimmable_bytes) ? most : nullptr;
}

const PointFacts* freed_as_it_ended(const Facts& facts) {
  constexpr double kLate = 0.9, kRuns = 1, kMost = 0.9, kFreed = 0.5;
  std::uint64_t most = 0;
  for (const PointFacts& point : facts.timeline) most = std::max(most, point.live_bytes);
  const auto near_most = [&](const PointFacts& point) {
    return static_cast<double>(point.live_bytes) >= kMost * static_cast<double>(most);
  };
  const auto last = std::find_if(facts.timeline.rbegin(), facts.timeline.rend(), near_most);
  if (last == facts.timeline.rend() || facts.end_s < kRuns || last->time_s < kLate * facts.end_s) return nullptr;
  return static_cast<double>(facts.end_live_bytes) < kFreed * static_cast<double>(most) ? &*last : nullptr;
}

const GroupFacts* group_named(const Facts& facts, std::string_view name) {
  for (const GroupFacts& group : facts.groups)
    if (group.name == name) return &group;
  return nullptr;
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
