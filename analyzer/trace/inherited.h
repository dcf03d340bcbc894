// The blocks that a forked process has from its parent: what the parent's trace says lived when it forked.
//
// The child is told of an address only when it first touches one that it never allocated itself, so nothing is copied:
// the parent's own table is asked while the parent's timeline stands at that moment.
#pragma once
#include <cstdint>
#include <optional>

#include "analyzer/trace/event.h"

namespace heapspy::trace {

class InheritedBlocks {
 public:
  virtual ~InheritedBlocks() = default;
  // The block that lived at `address` at the fork, as the child is to see it: `inherited`, `lived_before` and `thread` (an id
  // that only whoever implements this understands) are set. nullopt: none did. Asked at most once for an address where one did.
  virtual std::optional<Block> at_fork(std::uint64_t address) const = 0;
};

}  // namespace heapspy::trace
