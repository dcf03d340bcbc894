#include "rule_table.h"

#include <sys/mman.h>

#include "os.h"
#include "recorder.h"

namespace heapspy::unwind {

namespace {

// __libc_csu_init, which every program linked before glibc 2.34 has of its own, without unwind data: constructors run beneath
// it.
bool is_csu_init(uint64_t pc) {
  constexpr uint8_t kAfterCall[] = {0x48, 0x83, 0xc3, 0x01, 0x48, 0x39, 0xdd, 0x75, 0xea, 0x48, 0x83, 0xc4,
                                    0x08, 0x5b, 0x5d, 0x41, 0x5c, 0x41, 0x5d, 0x41, 0x5e, 0x41, 0x5f, 0xc3};
  if (!os::is_readable(pc) || !os::is_readable(pc + sizeof kAfterCall - 8)) return false;
  for (unsigned i = 0; i < sizeof kAfterCall; i++)
    if (reinterpret_cast<const volatile uint8_t*>(pc)[i] != kAfterCall[i]) return false;
  return true;
}
constexpr Rule kCsuInit = {RuleKind::sp, BpRule::at_cfa, 64, -48, 0, 0};

}  // namespace

Known RuleTable::find_out(uint64_t place) {
  constexpr uint64_t kByFrame = static_cast<uint64_t>(RuleKind::by_frame);
  if (!recorder->alive) return {place, static_cast<uint64_t>(RuleKind::no_rule)};
  const bool interrupted = place & kInterrupted;
  // A call may be the last instruction of its function: what it returns to belongs to the next.
  const uint64_t pc = (place & ~kInterrupted) - !interrupted;
  const Modules::Found found = recorder->modules.find(pc);
  // Code that was made at run time is unmade, too: nothing is kept of it.
  if (!found.known) return recorder->hotspot.look_for_it(), Known{place, kByFrame};
  const uint64_t code = place | static_cast<uint64_t>(found.number) << 48;
  Rule found_rule{RuleKind::by_frame, BpRule::same, 0, 0, 0, 0};
  if (recorder->file.header().stacks != format::Stacks::frame_pointers && found.data.header) {
    found_rule = eh_frame_rule(found.data, pc);
    // Nothing was called from before a function's first byte, where no other function is: what is set up to return there, as a
    // coroutine to glibc's __start_context, has no caller.
    if (found_rule.kind == RuleKind::by_frame && !interrupted)
      if (const RuleKind begins = eh_frame_rule(found.data, pc + 1).kind; begins == RuleKind::sp || begins == RuleKind::end)
        found_rule.kind = RuleKind::end;
  }
  if (found_rule.kind == RuleKind::by_frame && recorder->file.header().stacks != format::Stacks::frame_pointers &&
      is_csu_init(place))
    found_rule = kCsuInit;
  const uint64_t rule = found_rule.packed(new_id());
  keep(code, rule);
  return {code, rule};
}

uint32_t RuleTable::new_id() {
  const uint32_t id = ids_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (id < kMostRuleIds) return id;
  ids_.store(kMostRuleIds, std::memory_order_relaxed);
  return 0;
}

void RuleTable::keep(uint64_t code, uint64_t rule) {
  Generation* table = table_.load(std::memory_order_acquire);
  if (!table) {
    first_.mask = kFirstEntries - 1;
    static_assert(offsetof(RuleTable, first_entries_) == offsetof(RuleTable, first_) + sizeof(Generation));
    if (table_.compare_exchange_strong(table, &first_, std::memory_order_release)) table = &first_;
  }
  for (uint64_t at = hash(code & kPlaceBits), probe = 0; probe < kMostProbes; probe++, at++) {
    Entry& entry = table->entry(at);
    uint64_t seen = 0;
    const bool fresh = entry.code.compare_exchange_strong(seen, code, std::memory_order_relaxed);
    if (!fresh && (seen & kPlaceBits) != (code & kPlaceBits)) continue;
    entry.code.store(code, std::memory_order_relaxed);
    entry.rule.store(rule, std::memory_order_release);
    if (fresh && table->used.fetch_add(1, std::memory_order_relaxed) * 8 > table->mask * 5) grow(table);
    return;
  }
  grow(table);
}

// What others add to the old table meanwhile is missing in the new one, and computed again.
void RuleTable::grow(Generation* seen) {
  os::SignalsBlocked blocked;
  if (seen->mask + 1 >= kMostEntries || !lock_.try_lock()) return;
  if (table_.load(std::memory_order_relaxed) == seen) {
    const uint64_t entries = (seen->mask + 1) * 2;
    const size_t bytes = sizeof(Generation) + entries * sizeof(Entry);
    auto* larger = static_cast<Generation*>(os::map_anonymous(bytes));
    if (larger && os::failed(os::advise(larger, bytes, MADV_WIPEONFORK))) os::unmap(larger, bytes), larger = nullptr;
    if (larger) {
      larger->mask = entries - 1;
      for (uint64_t i = 0; i <= seen->mask; i++) {
        const uint64_t rule = seen->entry(i).rule.load(std::memory_order_acquire);
        const uint64_t code = seen->entry(i).code.load(std::memory_order_relaxed);
        if (!rule) continue;
        uint64_t at = hash(code & kPlaceBits);
        while (larger->entry(at).code.load(std::memory_order_relaxed)) at++;
        larger->entry(at).code.store(code, std::memory_order_relaxed);
        larger->entry(at).rule.store(rule, std::memory_order_relaxed);
        larger->used.fetch_add(1, std::memory_order_relaxed);
      }
      more_bytes_ += bytes;
      table_.store(larger, std::memory_order_release);
    }
  }
  lock_.unlock();
}

// The lock keeps a larger table from being made of what is forgotten here.
void RuleTable::forget_module(uint32_t number) {
  Locked locked(lock_);
  Generation* table = table_.load(std::memory_order_acquire);
  for (uint64_t i = 0; table && i <= table->mask; i++)
    if (table->entry(i).code.load(std::memory_order_relaxed) >> 48 == number)
      table->entry(i).rule.store(0, std::memory_order_release);
}

}  // namespace heapspy::unwind
