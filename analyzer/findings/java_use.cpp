#include "analyzer/findings/java_use.h"

#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"

namespace heapspy::findings {
namespace {

// Threads that do what a finalizer or a Cleaner was registered for, after a collection.
bool cleans_up(const std::string& thread) {
  for (const char* each : {"Common-Cleaner", "Cleaner-", "Finalizer", "Reference Handl"})
    if (thread.starts_with(each)) return true;
  return false;
}

constexpr const char* kLivePart = "malloc: live";  // as the ledger calls it

}  // namespace

std::uint64_t resident_bytes(const Facts& facts, std::uint64_t live_bytes) {
  std::uint64_t most = facts.rss_bytes.value_or(live_bytes);
  for (const PartFacts& part : facts.parts)
    if (part.name == kLivePart) most = std::min(most, part.bytes);
  return std::min(live_bytes, most);
}

std::string blocks_text(const JavaUseFacts& use) {
  return fmt::format("{} ({} asked for)", plural_text(use.live_blocks, "live block", "live blocks"),
                     bytes_text(use.live_bytes));
}

std::string places_text(const JavaUseFacts& use) {
  std::string text;
  for (const auto& [place, bytes] : use.places)
    text += fmt::format("{} {} ({})", text.empty() ? " Asked for by" : ",", place, bytes_text(bytes));
  return text.empty() ? text : text + ".";
}

std::string ended_text(const Facts& facts, const JavaUseFacts& use) {
  if (facts.estimated) return " (All of this is estimated from samples.)";
  if (!use.ended_by_others) return "";
  std::string text = fmt::format(" Of {} that ended in the whole run, {} were freed by another thread than had asked",
                                 plural_text(use.ended_blocks, "such block", "such blocks"), count_text(use.ended_by_others));
  const bool mostly = use.ended_by_it > use.ended_by_others / 2, cleaned = cleans_up(use.ended_by);
  if (!mostly && !cleaned) return text + ".";
  text += fmt::format(", {} of them by {}", count_text(use.ended_by_it), use.ended_by);
  return text + (cleaned ? ": after a collection had found that nobody else would." : ".");
}

std::vector<std::pair<std::string, Figure>> evidence_of(const JavaUseFacts& use) {
  std::vector<std::string> places;
  for (const auto& [place, bytes] : use.places) places.push_back(place);
  return {{"live_bytes", use.live_bytes},
          {"live_blocks", use.live_blocks},
          {"ended_blocks", use.ended_blocks},
          {"ended_by_others", use.ended_by_others},
          {"ended_by", use.ended_by},
          {"ended_by_it", use.ended_by_it},
          {"places", places}};
}

}  // namespace heapspy::findings
