// The calls of a trace, and how one is made.
#pragma once
#include <stdint.h>

#include "../operation.h"

namespace heapspy::trial {

// A place for a block.
struct Slot {
  void* block;
  uint32_t turn;  // operations on it so far; only where threads play at once
};

class Calls {
 public:
  void map(const char* path);  // fails in one line

  const OperationsHeader& header() const { return *header_; }
  const Operation& operator[](uint64_t at) const { return operations_[at]; }
  uint64_t duration_us() const { return operations_[header_->operations - 1].time_us; }
  Slot& slot(const Operation& operation) { return slots_[operation.slot]; }

  // What the operation does to its block, if it is a call.
  void make(const Operation&);
  uint64_t failed() const { return failed_; }  // allocations that the allocator refused

 private:
  void keep(const Operation&, void* block);

  const OperationsHeader* header_ = nullptr;
  const Operation* operations_ = nullptr;
  Slot* slots_ = nullptr;
  uint64_t failed_ = 0;
};

}  // namespace heapspy::trial
