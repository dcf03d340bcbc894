// What the replayer plays: a file of these, in the recorded order. The replayer maps it and includes nothing else of ours.
#pragma once
#include <cstdint>

namespace heapspy::trial {

enum class Play : std::uint8_t {
  end = 0,  // the last; time_us: when the process ended
  malloc = 1,
  calloc = 2,
  aligned = 3,
  free = 4,
  realloc = 5,
  thread_end = 6,
  measure = 7,  // a moment at which the recording measured, too
  mallopt = 8,  // slot: the parameter, as it is in an int; size: the value
};

// Each page, also where another allocator puts the block so that it has one more. Before estimates are made kTouchAll says
// besides that nothing is known.
inline constexpr std::uint32_t kTouchAll = 0xffffffff, kTouchEach = 0xfffffffe;

struct Operation {
  std::uint64_t time_us;      // since the start of the process; does not decrease
  std::uint64_t size;         // bytes asked for
  std::uint32_t slot;         // which of the live blocks: index into a table of OperationsHeader::slots
  std::uint32_t thread;       // which calls; 0 is the main thread
  std::uint32_t touch_pages;  // whole pages of the block that are written
  Play play;
  std::uint8_t log2_alignment;
  std::uint16_t since;  // so many operations ago was the one before on this slot; 0: never, or longer ago than this can say
};
static_assert(sizeof(Operation) == 32);

struct OperationsHeader {
  char magic[8];  // "hspplay3"
  std::uint64_t operations;
  std::uint32_t slots;
  std::uint32_t threads;
  std::uint64_t calls;  // operations that call the allocator
};
static_assert(sizeof(OperationsHeader) == 32);
inline constexpr char kOperationsMagic[8] = {'h', 's', 'p', 'p', 'l', 'a', 'y', '3'};

// Blocks from this size on are rarely touched as a whole; of smaller ones every page is written.
inline constexpr std::uint64_t kPartlyTouchedFrom = 8192;

}  // namespace heapspy::trial
