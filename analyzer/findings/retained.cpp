// Whole free pages that malloc_trim(0) would return now. Where one block plugs the heap, `plug` counts them instead.
#include <fmt/core.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

// Live bytes below this share of their peak: whatever is kept, the program does not hold it.
constexpr double kFallen = 0.5;

// What the heaps hold, but for what no trim returns, beyond what all blocks that were ever live at once took: all that earlier
// trims could have kept RSS lower by. A moment just after the program began to free shows whole free pages that leave by
// themselves when it has freed the rest.
std::uint64_t beyond_peak(const Facts& facts) {
  std::uint64_t held = 0, taken = facts.peak_live_bytes;
  for (const ArenaFacts& arena : facts.arenas) {
    if (!arena.glibc_heap) continue;
    const std::uint64_t resident = arena.resident_bytes.value_or(0);
    held += resident - std::min(resident, arena.pinned_bytes.value_or(0) + arena.cached_bytes.value_or(0));
  }
  for (const ArenaNeedFacts& need : facts.arena_needs)
    if (need.arenas == 1) taken = std::max(taken, need.bytes);  // their headers and rounding too
  return held - std::min(held, taken);
}

// A threshold returns the free end of a heap, and has large blocks mapped on their own. What lies below a live block and came
// from small ones stays.
bool no_threshold_helps(const Facts& facts, const ArenaFacts* left_out, std::uint64_t bytes) {
  constexpr double kNearlyAll = 0.9;
  std::uint64_t stays = 0;
  for (const ArenaFacts& arena : facts.arenas) {
    if (!arena.glibc_heap || !arena.trimmable_bytes || !arena.plug || &arena == left_out) continue;
    const std::uint64_t below = std::min(*arena.trimmable_bytes, arena.plug->free_below_bytes);
    stays += below - std::min(below, arena.trimmable_large_bytes);
  }
  return static_cast<double>(stays) >= kNearlyAll * static_cast<double>(bytes);
}

}  // namespace

std::optional<Finding> retained(const Facts& facts) {
  if (!facts.glibc) return std::nullopt;
  const bool has_fallen =
      facts.live_bytes && static_cast<double>(*facts.live_bytes) < kFallen * static_cast<double>(facts.peak_live_bytes);
  if (has_fallen && freed_as_it_ended(facts)) return std::nullopt;  // what a process keeps that ends is nobody's loss
  std::uint64_t bytes = 0, arenas = 0;
  const ArenaFacts* largest = nullptr;
  const ArenaFacts* plugged = plugged_arena(facts);
  for (const ArenaFacts& arena : facts.arenas) {
    if (!arena.glibc_heap || !arena.trimmable_bytes || *arena.trimmable_bytes == 0 || &arena == plugged) continue;
    bytes += *arena.trimmable_bytes;
    arenas++;
    if (!largest || *arena.trimmable_bytes > *largest->trimmable_bytes) largest = &arena;
  }
  if (!largest || !worth(facts, bytes)) return std::nullopt;
  if (facts.at_peak && !worth(facts, beyond_peak(facts))) return std::nullopt;

  Finding finding;
  finding.kind = "retained";
  finding.title = "Retained";
  finding.severity = severity_of(facts, bytes);
  finding.bytes = bytes;
  finding.text = "Whole free pages that glibc keeps, in ";
  if (arenas > 1)
    finding.text +=
        fmt::format("{} arenas (most in {}, {})", count_text(arenas), largest->label, bytes_text(*largest->trimmable_bytes));
  else
    finding.text += largest->main ? "the main heap" : largest->label;
  finding.text += ". By itself glibc returns only the end of a heap, once that is larger than the trim threshold";
  if (facts.trim_threshold_setting)
    finding.text += fmt::format(" (here {}).", *facts.trim_threshold_setting);
  else
    finding.text +=
        ", and it raises this threshold (128 KiB at first, 64 MiB at most) to twice the largest mapped block ever freed, "
        "unless "
        "it is set before start.";
  if (has_fallen)
    finding.text += fmt::format(" Live memory had fallen from {} to {}: this is not a leak.", bytes_text(facts.peak_live_bytes),
                                bytes_text(*facts.live_bytes));
  finding.fix = facts.running ? fmt::format("heapspy trim {}", facts.pid) : std::string("malloc_trim(0) at that moment");
  if (facts.locked) {
    finding.text += kLocked;
    finding.to_try = "munlockall, or lock only what must never wait for a disk";
    finding.fix.reset();
    return finding;
  }
  finding.fix_saves_bytes = bytes;
  finding.cost = "malloc_trim holds each arena's lock in turn; memory used again costs page faults";
  const bool behind_blocks = no_threshold_helps(facts, plugged, bytes);
  if (behind_blocks) {
    finding.text +=
        " Nearly all of it lies below blocks that live (heapspy report --by arena names the last of each heap): no threshold "
        "returns that.";
    finding.to_try = "trims now and then; what they save and cost: heapspy replay TRACE --with default,trim=5";
  } else if (!facts.trim_threshold_setting)
    finding.to_try =
        "MALLOC_TRIM_THRESHOLD_=131072, set before start; measure it: heapspy compare --with default,trim_threshold=128KiB -- "
        "CMD";
  if (facts.java)  // it can trim by itself
    finding.to_try =
        std::string("-XX:TrimNativeHeapInterval=5000 (milliseconds; JDK 17.0.9, 21.0.1, 22 and later)") +
        (behind_blocks ? "; what it saves: heapspy replay TRACE --with default,trim=5"
                       : ", or MALLOC_TRIM_THRESHOLD_=131072, set before start; what they save: heapspy replay TRACE --with "
                         "default,trim=5,trim_threshold=128KiB");
  finding.evidence = {{"trimmable_bytes", bytes},
                      {"arenas", arenas},
                      {"largest_arena", largest->label},
                      {"largest_arena_bytes", *largest->trimmable_bytes}};
  return finding;
}

}  // namespace heapspy::findings
