// Rules from .eh_frame, the unwind data that compilers write for exceptions (System V ABI for x86-64, LSB 10.6: DWARF's call
// frame information). Reads memory of the loaded object only, between `from` and `to`; allocates nothing.
#pragma once
#include "rule.h"

namespace heapspy::unwind {

struct UnwindData {
  const uint8_t* header;  // .eh_frame_hdr
  uint64_t from, to;      // of the loaded object
};

// The rule at `pc`, an address inside the instruction in question: a return address minus 1, or where a signal came. by_frame
// where the object says nothing about it.
Rule eh_frame_rule(const UnwindData& data, uint64_t pc);

// The same from the entry (FDE) that describes `pc`.
Rule rule_of_entry(const UnwindData& data, const uint8_t* entry, uint64_t pc);

}  // namespace heapspy::unwind
