// Where the allocations of one thread's stream come from, as its records of kinds stack and next_stack say it (FORMAT.md).
#pragma once
#include <cstdint>

#include "heapspy/format/followed_stacks.h"

namespace heapspy::trace {

// Cells are numbers of the stack table; 0: not known.
class StacksSaid {
 public:
  void is(std::uint64_t cell) {
    followed_.forget();
    last_ = number(cell);
    said_ = lost_ = false;
  }
  void is_next(std::uint64_t cell) {
    followed_.note(last_, number(cell));
    last_ = number(cell);
    said_ = true;
  }
  // Words are missing, and what follows what may have been among them.
  void lose() { lost_ = true, said_ = false; }

  // Of the next allocation or realloc_end; once for each.
  std::uint32_t next() {
    if (said_) return said_ = false, last_;
    if (lost_) return 0;
    return last_ = followed_.after(last_);
  }

 private:
  static std::uint32_t number(std::uint64_t cell) { return cell >> 32 ? 0 : static_cast<std::uint32_t>(cell); }

  format::FollowedStacks followed_;
  std::uint32_t last_ = 0;
  bool said_ = false;  // of the next allocation, by its own record
  bool lost_ = false;  // until something is said of all that follow
};

}  // namespace heapspy::trace
