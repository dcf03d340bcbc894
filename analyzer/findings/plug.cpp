// A heap shrinks only from its end, so its highest live block holds back every free page under it, however small it is.
#include <fmt/core.h>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {

std::optional<Finding> plug(const Facts& facts) {
  if (!facts.glibc) return std::nullopt;
  const ArenaFacts* arena = plugged_arena(facts);
  if (!arena || !worth(facts, *arena->trimmable_bytes)) return std::nullopt;

  const PlugFacts& block = *arena->plug;
  const std::uint64_t bytes = *arena->trimmable_bytes;
  Finding finding;
  finding.kind = "plug";
  finding.title = "Plugged heap";
  finding.severity = severity_of(facts, bytes);
  finding.bytes = bytes;
  std::string whose = block.thread.empty() ? "" : "thread " + block.thread;
  if (!block.site.empty()) whose += (whose.empty() ? "" : ", ") + ("allocated at " + block.site);
  if (block.age_s) whose += (whose.empty() ? "" : ", ") + seconds_text(*block.age_s) + " old";
  finding.text = fmt::format(
      "One live block of {} at 0x{:x}{} is the plug of {}: none of the {} of free memory under it can leave by shrinking the "
      "heap "
      "while it lives.",
      plural_text(block.block_bytes, "byte", "bytes"), block.address, whose.empty() ? "" : " (" + whose + ")",
      arena->main ? "the main heap" : arena->label, bytes_text(block.free_below_bytes));
  finding.fix = facts.running ? fmt::format("heapspy trim {}", facts.pid) : std::string("malloc_trim(0) at that moment");
  if (facts.locked) {
    finding.text += kLocked;
    finding.to_try = "munlockall, or lock only what must never wait for a disk";
    finding.fix.reset();
    return finding;
  }
  finding.fix_saves_bytes = bytes;
  finding.cost = "malloc_trim holds each arena's lock in turn; memory used again costs page faults";
  finding.to_try = "free that block, or allocate it before the large burst: without it the heap shrinks by itself";
  finding.evidence = {{"arena", arena->label},
                      {"block_bytes", block.block_bytes},
                      {"block_address", fmt::format("0x{:x}", block.address)},
                      {"thread", block.thread},
                      {"free_below_bytes", block.free_below_bytes},
                      {"trimmable_bytes", bytes},
                      {"arena_live_blocks", arena->live_blocks},
                      {"arena_live_bytes", arena->live_bytes}};
  if (!block.site.empty()) finding.evidence.emplace_back("site", block.site);
  if (block.age_s) finding.evidence.emplace_back("age_s", *block.age_s);
  return finding;
}

}  // namespace heapspy::findings
