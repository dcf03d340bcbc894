// What of a thread's stacks may be read: addresses above the stack pointer of which the kernel has said that they are readable.
// Asked page by page as frames are met, so almost every look is two compares; a thread changes between two stacks (coroutines,
// signal handlers) without asking again.
#pragma once
#include <cstdint>

#include "hot.h"
#include "os.h"

namespace heapspy::unwind {

class StackMemory {
 public:
  // Makes the stack that `sp` points into the current one. False: not readable.
  HEAPSPY_HOT bool enter(uint64_t sp) {
    if (__builtin_expect(sp >= now_.low && sp < now_.high, 1)) return true;
    return enter_other(sp);
  }
  // Whether everything from the stack pointer up to `end` may be read.
  HEAPSPY_HOT bool reaches(uint64_t end) { return __builtin_expect(end <= now_.high, 1) || extend(end); }
  bool holds(uint64_t address) const { return address >= now_.low && address < now_.high; }
  void forget() { now_ = before_ = {}; }

 private:
  static constexpr uint64_t kPage = 4096, kFarthest = 8 << 20;  // a frame is not larger

  struct Range {
    uint64_t low, high;
  };
  HEAPSPY_COLD bool enter_other(uint64_t sp);
  HEAPSPY_COLD bool extend(uint64_t end);

  Range now_, before_;
};

}  // namespace heapspy::unwind
