// Every thread that finds its arena locked moves to another one, up to 8 per CPU; each keeps what its bursts once needed.
// What MALLOC_ARENA_MAX would save is not predicted here, so it is offered to be measured, not as a fix.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

// Fewer arenas than this are not a growth: MALLOC_ARENA_MAX=2 could hardly remove any.
constexpr std::size_t kArenas = 4;
// "Little used": less than half of what the arenas hold in RAM is live.
constexpr double kUsedShare = 0.5;
constexpr std::size_t kNamesShown = 3;

// "pool-1-thread-7" and "pool-1-thread-12" are of one family.
std::string family(const std::string& name) {
  std::string result;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit)
      result += c;
    else if (result.empty() || result.back() != '#')
      result += '#';
  }
  return result;
}

}  // namespace

std::optional<Finding> arena_growth(const Facts& facts) {
  if (!facts.glibc || facts.arena_max_setting) return std::nullopt;
  std::uint64_t resident = 0, live = 0, free = 0;
  std::size_t arenas = 0;
  std::vector<std::pair<std::string, std::size_t>> families;  // with the number of arenas each is seen in
  for (const ArenaFacts& arena : facts.arenas) {
    if (arena.main || !arena.glibc_heap || !arena.resident_bytes || !arena.trimmable_bytes) continue;
    arenas++;
    resident += *arena.resident_bytes;
    live += arena.live_bytes;
    free += *arena.trimmable_bytes + arena.pinned_bytes.value_or(0) + arena.cached_bytes.value_or(0);
    std::set<std::string> here;
    for (const std::string& name : arena.threads) here.insert(family(name));
    for (const std::string& name : here) {
      const auto at = std::find_if(families.begin(), families.end(), [&](const auto& each) { return each.first == name; });
      if (at == families.end())
        families.emplace_back(name, 1);
      else
        at->second++;
    }
  }
  if (arenas < kArenas || !worth(facts, free)) return std::nullopt;
  if (static_cast<double>(live) > kUsedShare * static_cast<double>(resident)) return std::nullopt;
  std::stable_sort(families.begin(), families.end(), [](const auto& a, const auto& b) { return a.second > b.second; });

  Finding finding;
  finding.kind = "arena_growth";
  finding.title = "Arena growth";
  finding.severity = severity_of(facts, free);
  finding.bytes = free;
  finding.part_of = {"plug", "retained", "pinned", "secondary_tops"};
  finding.text =
      fmt::format("Of the free bytes, {} lie in {} secondary arenas{}: {} live of {} resident ({}).", bytes_text(free),
                  count_text(arenas), facts.arena_limit ? fmt::format(" (limit {})", *facts.arena_limit) : "", bytes_text(live),
                  bytes_text(resident), percent_text(live, resident));
  std::vector<std::string> names;
  for (const auto& [name, count] : families)
    if (names.size() < kNamesShown) names.push_back(name);
  if (!names.empty()) {
    finding.text += " Filled by threads named";
    for (std::size_t i = 0; i < names.size(); i++) finding.text += (i ? ", " : " ") + names[i];
    finding.text += ".";
  }
  finding.to_try =
      "MALLOC_ARENA_MAX=2, set before start; measure what it saves and costs: heapspy compare --with "
      "default,arena_max=1,arena_max=2 -- CMD";
  finding.evidence = {{"secondary_arenas", static_cast<std::uint64_t>(arenas)},
                      {"free_bytes", free},
                      {"live_bytes", live},
                      {"resident_bytes", resident},
                      {"thread_names", names}};
  return finding;
}

}  // namespace heapspy::findings
