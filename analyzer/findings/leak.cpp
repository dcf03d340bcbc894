// Live bytes grow along a straight line to the end of the run while the program also frees most of what it allocates:
// what a build-up at start, a burst or a cache that fills once does not look like. Where other memory comes and goes and hides
// the line, or is so much that the growth is a small part, the call stacks tell: one whose blocks are left over evenly from all
// parts of the run.
#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/leaked_sites.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

// The first quarter is left out: programs build up at their start.
constexpr double kFrom = 0.25;
constexpr std::size_t kPoints = 8;     // fewer say nothing about a line
constexpr double kStraight = 0.9;      // r squared of the line
constexpr double kEndOfPeak = 0.9;     // the end holds nearly the most that was ever live
constexpr double kGrowthOfEnd = 0.25;  // the growth is a good part of what is live
constexpr std::size_t kSitesShown = 3;
constexpr double kShareShown = 0.05;  // of the growth: a site with less is not named

// The program allocates, and so frees, several times what it keeps, or very many blocks for one that it keeps (where those are
// large). How many it kept before it freed all as it ended is not known.
bool frees_most(const Facts& facts, std::uint64_t growth, bool freed_all) {
  constexpr double kBytesOfGrowth = 4, kBlocksOfLive = 50;
  if (static_cast<double>(facts.bytes_allocated) >= kBytesOfGrowth * static_cast<double>(growth)) return true;
  if (freed_all) return false;
  std::uint64_t allocations = 0, live = 0;
  for (const SizeFacts& size : facts.sizes_at_end) allocations += size.allocations, live += size.live_blocks;
  return live > 0 && static_cast<double>(allocations) >= kBlocksOfLive * static_cast<double>(live);
}

// Without one or two blocks the rest is too little for the growth: a buffer that grows, however often it moved.
bool is_a_buffer(const Facts& facts, std::uint64_t growth) {
  constexpr std::uint64_t kBuffers = 2;
  std::uint64_t live = 0;
  const SizeFacts* largest = nullptr;
  for (const SizeFacts& size : facts.sizes_at_end) {
    live += size.live_bytes;
    if (!largest || size.live_bytes > largest->live_bytes) largest = &size;
  }
  return largest && largest->live_blocks <= kBuffers && live - largest->live_bytes < growth / 2;
}

struct Line {
  double slope = 0, r_squared = 0;
};

Line fit(const std::vector<PointFacts>& points) {
  double n = 0, mean_x = 0, mean_y = 0;
  for (const PointFacts& p : points) n += 1, mean_x += p.time_s, mean_y += static_cast<double>(p.live_bytes);
  mean_x /= n;
  mean_y /= n;
  double xx = 0, xy = 0, yy = 0;
  for (const PointFacts& p : points) {
    const double x = p.time_s - mean_x, y = static_cast<double>(p.live_bytes) - mean_y;
    xx += x * x;
    xy += x * y;
    yy += y * y;
  }
  if (xx <= 0 || yy <= 0) return {};
  return {xy / xx, xy * xy / (xx * yy)};
}

}  // namespace

std::optional<Finding> leak(const Facts& facts) {
  if (facts.timeline.empty()) return std::nullopt;
  // Where the program freed everything as it ended, its end is where it began to.
  const PointFacts* freed = freed_as_it_ended(facts);
  const double begin = facts.timeline.front().time_s, end_s = freed ? freed->time_s : facts.timeline.back().time_s;
  const double from = begin + kFrom * (end_s - begin);
  std::vector<PointFacts> points;
  std::uint64_t peak = 0;
  for (const PointFacts& p : facts.timeline) {
    peak = std::max(peak, p.live_bytes);
    if (p.time_s >= from && p.time_s <= end_s) points.push_back(p);
  }
  if (points.empty() || points.back().time_s <= points.front().time_s) return std::nullopt;
  const std::uint64_t first = points.front().live_bytes, end = freed ? freed->live_bytes : facts.end_live_bytes;
  const auto real = [](std::uint64_t value) { return static_cast<double>(value); };
  std::uint64_t growth = end - std::min(end, first + facts.suppressed_growth_bytes);
  Line line = fit(points);
  const bool straight = points.size() >= kPoints && worth(facts, growth) && line.slope > 0 && line.r_squared >= kStraight &&
                        real(end) >= kEndOfPeak * real(peak) && real(growth) >= kGrowthOfEnd * real(end);
  double since = points.front().time_s;
  if (!straight) {
    growth = 0;
    std::size_t parts = 0;
    for (const SiteFacts& site : facts.sites) {
      growth += leaked_evenly(site);
      parts = std::max(parts, site.survivors.size());
    }
    if (!growth || !worth(facts, growth) || facts.end_s <= begin) return std::nullopt;
    since = facts.end_s / real(parts);
    line = {real(growth) / (facts.end_s - since), 0};
  }
  if (!frees_most(facts, growth, freed != nullptr) || (straight && !freed && is_a_buffer(facts, growth))) return std::nullopt;

  Finding finding;
  finding.kind = "leak";
  finding.title = "Leak";
  finding.severity = severity_of(facts, growth);
  finding.bytes = growth;
  finding.whole_run = true;
  if (straight)
    finding.text = fmt::format("Live memory grows steadily to the end, by {} a second (from {} at {} to {} at {}){}.",
                               bytes_text(static_cast<std::uint64_t>(line.slope)), bytes_text(first), seconds_text(since),
                               bytes_text(end), seconds_text(end_s), freed ? ", and is freed only as the program ends" : "");
  else
    finding.text = fmt::format(
        "Among memory that comes and goes, blocks of all parts of the run are left over at its end: {} since {}, {} a second.",
        bytes_text(growth), seconds_text(since), bytes_text(static_cast<std::uint64_t>(line.slope)));
  const auto largest = std::max_element(facts.sizes_at_end.begin(), facts.sizes_at_end.end(),
                                        [](const SizeFacts& a, const SizeFacts& b) { return a.live_bytes < b.live_bytes; });
  finding.evidence = {{"growth_bytes", growth}, {"slope_bytes_per_s", line.slope},
                      {"straight", straight},   {"r_squared", line.r_squared},
                      {"end_live_bytes", end},  {"bytes_allocated", facts.bytes_allocated}};
  if (!freed && largest != facts.sizes_at_end.end() && largest->live_bytes > 0) {
    finding.text +=
        fmt::format(" Most of what is left: {} of {}, {} never freed.", plural_text(largest->live_blocks, "block", "blocks"),
                    largest->to - largest->from <= 1 ? plural_text(largest->from, "byte", "bytes")
                                                     : fmt::format("{} to {} bytes", largest->from, largest->to - 1),
                    bytes_text(largest->live_bytes));
    finding.evidence.insert(finding.evidence.end(), {{"size_from", largest->from},
                                                     {"size_to", largest->to},
                                                     {"size_live_blocks", largest->live_blocks},
                                                     {"size_live_bytes", largest->live_bytes}});
  }
  std::vector<const SiteFacts*> sites;
  for (const SiteFacts& site : facts.sites)
    if (real(leaked(site)) >= kShareShown * real(growth) && leaked(site) > 0) sites.push_back(&site);
  std::stable_sort(sites.begin(), sites.end(), [](const SiteFacts* a, const SiteFacts* b) { return leaked(*a) > leaked(*b); });
  if (sites.size() > kSitesShown) sites.resize(kSitesShown);
  std::vector<std::string> places;
  for (const SiteFacts* site : sites) {
    // The youngest may be work at hand: they are said apart.
    finding.text += fmt::format("{} {} ({} in {} never freed; {} of it from the last {} of the run)",
                                places.empty() ? " Allocated at" : ",", site->where, bytes_text(site->end_live_bytes),
                                plural_text(site->end_live_blocks, "block", "blocks"), bytes_text(site->survivors.back()),
                                percent_text(1, site->survivors.size()));
    places.push_back(site->where);
  }
  if (!places.empty()) {
    finding.text += ".";
    finding.evidence.emplace_back("sites", places);
  }
  if (facts.suppressed_growth_bytes) {
    finding.text += fmt::format(" ({} of suppressed sites are not counted.)", bytes_text(facts.suppressed_growth_bytes));
    finding.evidence.emplace_back("suppressed_growth_bytes", facts.suppressed_growth_bytes);
  }
  if (facts.estimated) finding.text += " (All of this is estimated from samples.)";
  finding.text += " No allocator setting helps.";
  return finding;
}

}  // namespace heapspy::findings
