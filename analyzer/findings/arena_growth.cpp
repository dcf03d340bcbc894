// Every thread that finds its arena locked moves to another one, up to 8 per CPU; each keeps what its bursts once needed.
// What MALLOC_ARENA_MAX would save is predicted from what the blocks needed at once; where threads compete for locks it is not
// advised, however much it saves.
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
constexpr std::uint64_t kAdvised = 2;  // arenas: one has no room for a second thread that allocates after all

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

struct Saving {
  std::uint64_t arenas = 0, bytes = 0;
};

// By what the arenas hold now beyond what their blocks would have needed in N arenas at the most, and at most what is free now.
std::vector<Saving> predict(const Facts& facts, std::uint64_t free) {
  std::uint64_t resident = 0;
  for (const ArenaFacts& arena : facts.arenas)
    if (arena.glibc_heap) resident += arena.resident_bytes.value_or(0);
  std::vector<Saving> savings;
  for (const ArenaNeedFacts& need : facts.arena_needs) {
    const std::uint64_t bytes = std::min(free, resident - std::min(resident, need.bytes));
    if (worth(facts, bytes)) savings.push_back({need.arenas, bytes});
  }
  return savings;
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
  finding.part_of = {"plug", "retained", "pinned", "secondary_tops", "thread_caches"};
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
  std::vector<Saving> savings = predict(facts, free);
  if (threads_compete(facts)) {
    finding.text += fmt::format(
        " But {:.1f} threads take arenas' locks at once, {} times a second: in one or two arenas they would wait for each "
        "other.",
        facts.concurrency.threads_at_once, count_text(static_cast<std::uint64_t>(facts.concurrency.calls_per_s)));
    std::erase_if(savings,
                  [&](const Saving& each) { return static_cast<double>(each.arenas) < facts.concurrency.threads_at_once; });
    finding.to_try = savings.empty() ? "another allocator: heapspy replay TRACE --with default,jemalloc"
                                     : fmt::format(
                                           "MALLOC_ARENA_MAX={} (set before start) and its lock waits: heapspy replay "
                                           "TRACE --with default,arena_max={},jemalloc",
                                           savings.back().arenas, savings.back().arenas);
  } else if (savings.empty()) {
    finding.to_try =
        "MALLOC_ARENA_MAX=2, set before start; measure what it saves and costs: heapspy compare --with "
        "default,arena_max=1,arena_max=2 -- CMD";
  } else {
    const auto chosen =
        std::find_if(savings.begin(), savings.end(), [](const Saving& each) { return each.arenas >= kAdvised; });
    const Saving& advised = chosen == savings.end() ? savings.back() : *chosen;
    std::string all;
    for (const Saving& each : savings)
      all += fmt::format("{}{} with {}", all.empty() ? "" : ", ", bytes_text(each.bytes), each.arenas);
    finding.text +=
        fmt::format(" In fewer arenas their blocks would have needed less: at most {} are saved (holes not counted).", all);
    finding.fix = fmt::format("MALLOC_ARENA_MAX={}, set before start", advised.arenas);
    finding.fix_saves_bytes = advised.bytes;
    finding.cost = facts.concurrency.threads_at_once >= 2
                       ? fmt::format("lock waits: {} calls came from {:.1f} threads within the same millisecond",
                                     count_text(facts.concurrency.calls), facts.concurrency.threads_at_once)
                       : "lock waits, few here: hardly two threads ever allocated within the same millisecond";
    finding.to_try =
        "measure what it saves and costs: heapspy replay TRACE --with default,arena_max=2, or heapspy compare -- CMD";
  }
  finding.evidence = {{"secondary_arenas", static_cast<std::uint64_t>(arenas)},
                      {"free_bytes", free},
                      {"live_bytes", live},
                      {"resident_bytes", resident},
                      {"thread_names", names}};
  for (const Saving& each : savings)
    finding.evidence.emplace_back(fmt::format("arena_max_{}_saves_bytes", each.arenas), each.bytes);
  return finding;
}

}  // namespace heapspy::findings
