// Free bytes on pages that also hold a live block: no trim returns them, so the blocks' owners are named.
#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

constexpr std::size_t kThreadsShown = 3;
constexpr std::size_t kSitesShown = 3;
// "In the main heap": at least this share of the pinned bytes lies there, so that arenas are not the disease.
constexpr double kMainShare = 0.8;
constexpr double kNearlyAll = 0.8;  // of what all sites looked at would give back

}  // namespace

std::optional<Finding> pinned(const Facts& facts) {
  if (!facts.glibc) return std::nullopt;
  std::uint64_t bytes = 0, in_main = 0, live = 0;
  for (const ArenaFacts& arena : facts.arenas) {
    if (!arena.glibc_heap || !arena.pinned_bytes) continue;
    bytes += *arena.pinned_bytes;
    if (arena.main) in_main += *arena.pinned_bytes;
    live += arena.live_bytes;
  }
  if (!worth(facts, bytes)) return std::nullopt;

  Finding finding;
  finding.kind = "pinned";
  finding.title = "Pinned";
  finding.severity = severity_of(facts, bytes);
  finding.bytes = bytes;
  std::uint64_t blocks = 0;
  for (const PinnerFacts& each : facts.pinners) blocks += each.blocks;
  finding.text = fmt::format("Free bytes on pages that also hold one of {} ({} live in these heaps): no trim can return them.",
                             plural_text(blocks, "live block", "live blocks"), bytes_text(live));
  if (static_cast<double>(in_main) >= kMainShare * static_cast<double>(bytes))
    finding.text +=
        fmt::format(" {} of it in the main heap, so MALLOC_ARENA_MAX does not help either.", percent_text(in_main, bytes));
  std::vector<std::string> names;
  std::string by;
  for (const PinnerFacts& each : facts.pinners) {
    if (names.size() == kThreadsShown || each.pinned_bytes == 0) break;
    by += fmt::format("{} {} ({})", names.empty() ? "" : ",", each.thread, bytes_text(each.pinned_bytes));
    names.push_back(each.thread);
  }
  if (!names.empty()) finding.text += " Pinned by blocks of" + by + ".";
  std::vector<SiteFacts> sites = facts.sites;
  std::stable_sort(sites.begin(), sites.end(),
                   [](const SiteFacts& a, const SiteFacts& b) { return a.pinned_bytes > b.pinned_bytes; });
  std::vector<std::string> places;
  std::string from;
  for (const SiteFacts& site : sites) {
    if (places.size() == kSitesShown || site.pinned_bytes == 0) break;
    from += fmt::format("{} {} ({} by {})", places.empty() ? "" : ",", site.where, bytes_text(site.pinned_bytes),
                        plural_text(site.pinning_blocks, "block", "blocks"));
    places.push_back(site.where);
  }
  if (!places.empty()) finding.text += " They were allocated at" + from + ".";
  if (!facts.freed_sites.empty()) {
    // What leaves beyond what the sites' blocks hold themselves: the blocks may live on elsewhere.
    std::vector<std::uint64_t> gains;
    std::uint64_t held = 0;
    for (const FreedSiteFacts& each : facts.freed_sites) {
      held += each.live_bytes;
      gains.push_back(each.returned_bytes - std::min(each.returned_bytes, held));
    }
    const double most = static_cast<double>(*std::max_element(gains.begin(), gains.end()));
    std::size_t enough = 1;
    while (static_cast<double>(gains[enough - 1]) < kNearlyAll * most) enough++;
    const FreedSiteFacts& last = facts.freed_sites[enough - 1];
    if (worth(facts, gains[enough - 1])) {
      finding.fix = enough == 1 ? fmt::format(
                                      "do not keep the blocks of {} among others: free them, or allocate them together "
                                      "(before the short-lived ones, in a pool)",
                                      last.where)
                                : fmt::format(
                                      "do not keep the blocks of these {} sites among others: free them, or allocate them "
                                      "together (before the short-lived ones, in a pool)",
                                      enough);
      finding.fix_saves_bytes = gains[enough - 1];
      finding.cost = "a change of the program; the memory then leaves by malloc_trim or by itself";
      finding.evidence.emplace_back("if_freed_sites", static_cast<std::uint64_t>(enough));
      finding.evidence.emplace_back("if_freed_returned_bytes", last.returned_bytes);
    }
  }
  finding.to_try =
      "another allocator, or keep long-lived blocks apart from short ones; measure: heapspy compare --with "
      "default,jemalloc,tcmalloc -- CMD";
  finding.evidence.insert(finding.evidence.begin(), {{"pinned_bytes", bytes},
                                                     {"pinned_bytes_in_main", in_main},
                                                     {"pinning_blocks", blocks},
                                                     {"live_bytes", live},
                                                     {"threads", names}});
  if (!places.empty()) finding.evidence.emplace_back("sites", places);
  return finding;
}

}  // namespace heapspy::findings
