// The libraries that frames lie in, over time: each gets a number at its first frame, and no other ever has it.
//
// A library that went unnoticed (libc unloads some by itself) is retired when another is met at its place.
//
// Threads: any. Lives in the recorder's wipe-on-fork memory, zero at first.
#pragma once
#include <atomic>
#include <cstdint>

#include "loaded_objects.h"
#include "lock.h"
#include "unwind/eh_frame_rules.h"

namespace heapspy {

class Modules {
 public:
  struct Found {
    unwind::UnwindData data;
    uint32_t number;  // 0: of none, or of one that could not be numbered
    bool known;       // false: no loaded object has this address
  };
  Found find(uint64_t pc);
  // For the time of dlclose.
  LoadedObjects::Unloading unloading() { return LoadedObjects::Unloading(objects_); }
  // After dlclose: of what is gone, the rules and stacks that were kept are no longer true.
  void look_for_unloaded();
  // Moves whenever a module is retired.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  uint64_t private_bytes() const { return blocks_ * sizeof(Block); }

 private:
  struct Module {
    uint64_t start, end;
    const void* map;  // the loader's
    const uint8_t* header;
    uint32_t number;
    bool gone;
  };
  static constexpr uint32_t kInBlock = 100;
  struct Block {
    Block* before;
    uint32_t used;
    Module modules[kInBlock];
  };
  static_assert(sizeof(Block) <= 8192);

  uint32_t number_of(const Module& seen);
  uint32_t add(const Module& seen);
  void retire(Module& module);
  template <class Visit>
  void for_each(Visit visit);

  Lock lock_;
  LoadedObjects objects_;
  std::atomic<uint64_t> epoch_;
  uint32_t numbers_;
  uint32_t blocks_;
  Block* newest_;
  Block first_;
};

}  // namespace heapspy
