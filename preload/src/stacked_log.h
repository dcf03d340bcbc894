// The log of the modes full and ring with call stacks: as EventLog, but before an allocation it says whence it came, where that
// is not where it is expected to come from (FORMAT.md, kinds 22 and 23).
#pragma once
#include "event_writer.h"
#include "unwind/memoized.h"

namespace heapspy {

// What called the entry point, seen from a function that is inlined into that one.
HEAPSPY_HOT unwind::Registers caller_of_hook() {
  const auto* frame = static_cast<const uint64_t*>(__builtin_frame_address(0));
  return {frame[1], reinterpret_cast<uint64_t>(frame + 2), frame[0]};
}

// They hand the block on. The caller's registers come one by one, so that a hook ends in them without a frame of its own.
void* write_short_with_stack(uint64_t word, void* block, uint64_t pc, uint64_t sp, uint64_t bp);
HEAPSPY_COLD void* write_long_allocation_with_stack(unsigned origin_and_alignment, void* block, uint64_t size, uint64_t pc,
                                                    uint64_t sp, uint64_t bp);
HEAPSPY_COLD void* write_long_realloc_end_with_stack(void* block, uint64_t size, uint64_t pc, uint64_t sp, uint64_t bp);

template <bool counts>
struct StackedLog : EventLog<counts> {
  static HEAPSPY_HOT void* allocation(format::Operation operation, format::Origin origin, void* block, uint64_t size) {
    return allocation_from(caller_of_hook(), operation, origin, block, size);
  }
  static HEAPSPY_HOT void* aligned_allocation(format::Origin origin, unsigned log2_alignment, void* block, uint64_t size) {
    return aligned_allocation_from(caller_of_hook(), origin, log2_alignment, block, size);
  }
  static HEAPSPY_HOT void* realloc_end(bool, uintptr_t, void* block, uint64_t size) {
    return realloc_end_from(caller_of_hook(), block, size);
  }

  static HEAPSPY_HOT void* allocation_from(unwind::Registers caller, format::Operation operation, format::Origin origin,
                                           void* block, uint64_t size) {
    const auto address = reinterpret_cast<uint64_t>(block);
    if (HEAPSPY_UNLIKELY(!block)) return write_failed(origin, size);
    if (HEAPSPY_UNLIKELY(!format::fits_short(address, size))) return aligned_allocation_from(caller, origin, 0, block, size);
    return write_short_with_stack(format::encode_short(operation, address, size), block, caller.pc, caller.sp, caller.bp);
  }
  static HEAPSPY_HOT void* aligned_allocation_from(unwind::Registers caller, format::Origin origin, unsigned log2_alignment,
                                                   void* block, uint64_t size) {
    if (!block) return write_failed(origin, size);
    return write_long_allocation_with_stack(static_cast<unsigned>(origin) | log2_alignment << 8, block, size, caller.pc,
                                            caller.sp, caller.bp);
  }
  static HEAPSPY_HOT void* realloc_end_from(unwind::Registers caller, void* block, uint64_t size) {
    const auto address = reinterpret_cast<uint64_t>(block);
    if (HEAPSPY_UNLIKELY(!block)) return write_realloc_without_block(size);
    if (HEAPSPY_UNLIKELY(!format::fits_short(address, size)))
      return write_long_realloc_end_with_stack(block, size, caller.pc, caller.sp, caller.bp);
    return write_short_with_stack(format::encode_short(format::Operation::realloc_end, address, size), block, caller.pc,
                                  caller.sp, caller.bp);
  }
};

}  // namespace heapspy
