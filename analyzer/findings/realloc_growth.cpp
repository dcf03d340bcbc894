// A buffer that is made a little larger again and again: each step may carry over all that it holds, so the work grows with the
// square of its size. A buffer that grows by a factor carries about as much as it becomes.
#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

constexpr std::uint64_t kReallocations = 64;    // fewer steps are no growth by steps
constexpr std::uint64_t kCopied = 64ull << 20;  // less is quickly done
constexpr double kTimesTheSize = 8;             // growth by a factor of 1.15 carries this much
constexpr double kMediumTimes = 64;

}  // namespace

std::optional<Finding> realloc_growth(const Facts& facts) {
  const SiteFacts* worst = nullptr;
  for (const SiteFacts& site : facts.sites) {
    if (site.reallocations < kReallocations || site.copied_bytes < kCopied) continue;
    const std::uint64_t size = std::max(site.final_bytes, site.largest_bytes);
    if (static_cast<double>(site.copied_bytes) < kTimesTheSize * static_cast<double>(size)) continue;
    if (!worst || site.copied_bytes > worst->copied_bytes) worst = &site;
  }
  if (!worst) return std::nullopt;
  const std::uint64_t size = std::max(worst->final_bytes, worst->largest_bytes);
  const double times = static_cast<double>(worst->copied_bytes) / static_cast<double>(size ? size : 1);

  Finding finding;
  finding.kind = "realloc_growth";
  finding.title = "Growth by small steps";
  const bool moved = static_cast<double>(worst->moved_bytes) >= kTimesTheSize * static_cast<double>(size);
  finding.severity = moved && times >= kMediumTimes ? Severity::medium : Severity::low;
  finding.whole_run = true;
  finding.text = fmt::format("{} at {} had up to {} to carry over for what became {}: {:.0f} times as much. ",
                             plural_text(worst->reallocations, "realloc", "reallocs"), worst->where,
                             bytes_text(worst->copied_bytes), bytes_text(size), times);
  if (moved)
    finding.text +=
        fmt::format("The block moved for {} of that. Work grows with the square of the size; no allocator setting helps.",
                    bytes_text(worst->moved_bytes));
  else
    finding.text += fmt::format(
        "Here the block could grow where it stood and moved for {} only. Where something stands behind it, or under another "
        "allocator, each step carries over all of it, and work grows with the square of the size.",
        bytes_text(worst->moved_bytes));
  finding.to_try = "let that buffer grow by a factor, such as half its size, instead of a fixed step";
  finding.evidence = {{"site", worst->where},
                      {"reallocations", worst->reallocations},
                      {"copied_bytes", worst->copied_bytes},
                      {"moved_bytes", worst->moved_bytes},
                      {"final_bytes", worst->final_bytes},
                      {"largest_bytes", worst->largest_bytes}};
  return finding;
}

}  // namespace heapspy::findings
