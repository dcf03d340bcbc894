// How to get from a frame to its caller's: one word per return address.
#pragma once
#include <cstdint>

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

  // 4 bits kind, 2 bp, 8 added, 4 reg, 20 bp_offset, 26 offset.
  bool fits() const {
    return offset >= -(1 << 25) && offset < (1 << 25) && bp_offset >= -(1 << 19) && bp_offset < (1 << 19) && reg < 16;
  }
  uint64_t packed() const {
    return static_cast<uint64_t>(kind) | static_cast<uint64_t>(bp) << 4 | static_cast<uint64_t>(added) << 6 |
           static_cast<uint64_t>(reg) << 14 | (static_cast<uint64_t>(bp_offset) & 0xfffff) << 18 |
           static_cast<uint64_t>(offset) << 38;
  }
};

// A packed rule's parts.
inline RuleKind kind_of(uint64_t rule) { return static_cast<RuleKind>(rule & 15); }
inline BpRule bp_rule_of(uint64_t rule) { return static_cast<BpRule>(rule >> 4 & 3); }
inline uint64_t added_of(uint64_t rule) { return rule >> 6 & 255; }
inline unsigned reg_of(uint64_t rule) { return rule >> 14 & 15; }
inline int64_t bp_offset_of(uint64_t rule) { return static_cast<int64_t>(rule << 26) >> 44; }
inline int64_t offset_of(uint64_t rule) { return static_cast<int64_t>(rule) >> 38; }

}  // namespace heapspy::unwind
