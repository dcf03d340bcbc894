// A heap shrinks only from its end, so its highest live block holds back every free page under it, however small it is.
#include <fmt/core.h>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {

std::optional<Finding> plug(const Facts& facts) {
  if (!facts.glibc) return std::nullopt;
  const ArenaFacts* largest = nullptr;
  std::uint64_t bytes = 0, heaps = 0;
  for (const ArenaFacts& arena : facts.arenas) {
    if (!plugged(arena)) continue;
    bytes += *arena.trimmable_bytes;
    heaps++;
    if (!largest || *arena.trimmable_bytes > *largest->trimmable_bytes) largest = &arena;
  }
  if (!largest || !worth(facts, bytes)) return std::nullopt;

  const PlugFacts& block = *largest->plug;
  Finding finding;
  finding.kind = "plug";
  finding.title = "Plugged heap";
  finding.severity = severity_of(facts, bytes);
  finding.bytes = bytes;
  finding.text = fmt::format(
      "One live block of {} at 0x{:x}{}{} is the plug of the {} heap: the {} of whole free pages directly under it cannot "
      "leave "
      "by shrinking the heap while it lives.",
      plural_text(block.block_bytes, "byte", "bytes"), block.address,
      block.thread.empty() ? "" : ", allocated by thread " + block.thread,
      block.age_s ? ", " + seconds_text(*block.age_s) + " old" : "", largest->label, bytes_text(block.free_below_bytes));
  if (heaps > 1) finding.text += fmt::format(" {} heaps are in this state.", count_text(heaps));
  finding.fix = facts.running ? fmt::format("heapspy trim {}", facts.pid) : std::string("malloc_trim(0) at that moment");
  finding.fix_saves_bytes = bytes;
  finding.cost = "malloc_trim holds each arena's lock in turn; memory used again costs page faults";
  finding.to_try = "free that block, or allocate it before the large burst: without it the heap shrinks by itself";
  finding.evidence = {{"arena", largest->label},
                      {"block_bytes", block.block_bytes},
                      {"block_address", fmt::format("0x{:x}", block.address)},
                      {"thread", block.thread},
                      {"free_below_bytes", block.free_below_bytes},
                      {"trimmable_bytes", bytes},
                      {"heaps", heaps}};
  if (block.age_s) finding.evidence.emplace_back("age_s", *block.age_s);
  return finding;
}

}  // namespace heapspy::findings
