// How to get from a frame to its caller's: one word per return address.
#pragma once
#include <cstdint>

#include "hot.h"

namespace heapspy::unwind {

enum class RuleKind : uint8_t {
  unknown = 0,   // not computed
  sp = 1,        // CFA = rsp + offset
  bp = 2,        // CFA = rbp + offset
  at_sp = 3,     // CFA = [rsp + offset] + added
  at_bp = 4,     // CFA = [rbp + offset] + added: over-aligned frames
  other = 5,     // CFA = another register + offset: known of a frame that a signal interrupted
  end = 6,       // outermost frame
  signal = 7,    // the kernel's signal frame: rsp points at a ucontext
  by_frame = 8,  // nothing is known: rbp may be a frame pointer
  no_rule = 9,   // unwind data that this unwinder does not understand
};

// Where the caller's rbp is. The return address is always at CFA - 8.
enum class BpRule : uint8_t { same = 0, at_cfa = 1, at_bp = 2, lost = 3 };

struct Rule {
  RuleKind kind = RuleKind::no_rule;
  BpRule bp = BpRule::same;
  int32_t offset = 0;
  int32_t bp_offset = 0;  // from the CFA or from rbp
  uint8_t added = 0;
  uint8_t reg = 0;  // DWARF's number of it

  // Bits 0 to 3 kind, 4 to 5 bp, 6 to 13 `added` or `reg`. Then, as most are: bit 14 set, 15 to 34 an id, 35 to 44 bp_offset /
  // 8, 45 to 63 offset / 8. Or 15 to 34 bp_offset, 35 to 63 offset, and no id.
  bool fits() const { return bp_offset >= -(1 << 19) && bp_offset < (1 << 19) && offset >= -(1 << 28) && offset < (1 << 28); }
  bool has_room_for_id() const {
    return !(offset & 7) && !(bp_offset & 7) && bp_offset >= -(1 << 12) && bp_offset < (1 << 12) && offset >= -(1 << 21) &&
           offset < (1 << 21);
  }
  uint64_t packed(uint32_t id) const {
    const uint64_t head = static_cast<uint64_t>(kind) | static_cast<uint64_t>(bp) << 4 |
                          static_cast<uint64_t>(kind == RuleKind::other ? reg : added) << 6;
    if (id && has_room_for_id())
      return head | 1 << 14 | static_cast<uint64_t>(id) << 15 | (static_cast<uint64_t>(bp_offset / 8) & 0x3ff) << 35 |
             static_cast<uint64_t>(offset / 8) << 45;
    return head | (static_cast<uint64_t>(bp_offset) & 0xfffff) << 15 | static_cast<uint64_t>(offset) << 35;
  }
};
inline constexpr uint32_t kMostRuleIds = 1 << 19;

// A packed rule's parts.
HEAPSPY_HOT RuleKind kind_of(uint64_t rule) { return static_cast<RuleKind>(rule & 15); }
HEAPSPY_HOT BpRule bp_rule_of(uint64_t rule) { return static_cast<BpRule>(rule >> 4 & 3); }
HEAPSPY_HOT uint64_t added_of(uint64_t rule) { return rule >> 6 & 255; }
HEAPSPY_HOT unsigned reg_of(uint64_t rule) { return rule >> 6 & 15; }
HEAPSPY_HOT bool has_id(uint64_t rule) { return rule & 1 << 14; }
HEAPSPY_HOT uint32_t id_of(uint64_t rule) { return has_id(rule) ? rule >> 15 & 0xfffff : 0; }
HEAPSPY_HOT int64_t bp_offset_of(uint64_t rule) {
  return __builtin_expect(has_id(rule), 1) ? static_cast<int64_t>(rule << 19) >> 54 << 3
                                           : static_cast<int64_t>(rule << 29) >> 44;
}
HEAPSPY_HOT int64_t offset_of(uint64_t rule) {
  return __builtin_expect(has_id(rule), 1) ? static_cast<int64_t>(rule) >> 45 << 3 : static_cast<int64_t>(rule) >> 35;
}

}  // namespace heapspy::unwind
