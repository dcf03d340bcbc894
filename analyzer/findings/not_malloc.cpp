// Most of RSS lies outside the allocator: every allocator setting does nothing about it.
#include <fmt/core.h>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

// Below this RSS, the program's own files and libraries are most of it and nobody asks.
constexpr std::uint64_t kProcessBytes = 64ull << 20;
// … unless so much of it is neither.
constexpr std::uint64_t kMadeBytes = 16ull << 20;
constexpr const char* kFiles = "libraries and files";  // as the ledger calls them
constexpr double kMost = 0.5;

}  // namespace

std::optional<Finding> not_malloc(const Facts& facts) {
  if (!facts.rss_bytes) return std::nullopt;
  std::uint64_t bytes = 0, made = 0;
  const PartFacts* largest = nullptr;
  for (const PartFacts& part : facts.parts) {
    if (part.kind != PartKind::other) continue;
    // What another allocator keeps has no part of its own: it is in the part without a name.
    if (!facts.glibc && part.name == "other") continue;
    bytes += part.bytes;
    if (part.name != kFiles) made += part.bytes;
    if (!largest || part.bytes > largest->bytes) largest = &part;
  }
  if (*facts.rss_bytes < kProcessBytes && made < kMadeBytes) return std::nullopt;
  if (!largest || static_cast<double>(bytes) < kMost * static_cast<double>(*facts.rss_bytes)) return std::nullopt;

  Finding finding;
  finding.kind = "not_malloc";
  finding.title = "Not malloc's";
  finding.severity = severity_of(facts, bytes);
  finding.bytes = bytes;
  // What the ledger could not name is said to be just that.
  const std::string largest_text =
      largest->name == "other" ? "what has no name of its own (mappings that the program made itself)" : largest->name;
  finding.text =
      fmt::format("{} of RSS lies outside the allocator; the largest part is {}, {}. No allocator setting changes it.",
                  percent_text(bytes, *facts.rss_bytes), largest_text, bytes_text(largest->bytes));
  finding.evidence = {{"rss_bytes", *facts.rss_bytes},
                      {"not_malloc_bytes", bytes},
                      {"largest_part", largest->name},
                      {"largest_part_bytes", largest->bytes}};
  return finding;
}

}  // namespace heapspy::findings
