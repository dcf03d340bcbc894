// The unwinder: walks a thread's stack by rules until it meets a frame of the thread's last stack, and then only compares.
//
// A frame's caller is a function of the frame (pc, sp, rbp) and of the two or three words on the stack that its rule names. So
// where a frame is the same as last time and those words are, too, for it and all frames further out, the rest of the stack is
// the same: exact, by induction. Each kept frame knows its cell of the stack table, so only new frames are looked up.
//
// One per thread and level of interruption; no other thread may touch it. A few hundred bytes of the program's stack.
#pragma once
#include <cstdint>

#include "heapspy/format/layout.h"
#include "hot.h"
#include "rule_table.h"
#include "stack_memory.h"

namespace heapspy::unwind {

// A frame as it is on return into it.
struct Registers {
  uint64_t pc, sp, bp;
};

class alignas(64) Memoized {
 public:
  // Bytes of one that keeps `depth` frames.
  static uint64_t bytes_for(uint32_t depth) { return sizeof(Memoized) + 2ull * capacity_for(depth) * sizeof(Frame); }
  // In that many zeros.
  void begin(uint32_t depth);
  // Knows nothing any more: the memory has another thread.
  void forget() { count_ = 0, memory_.forget(); }
  void forget_frames() { count_ = 0; }
  bool on_same_stack(uint64_t one, uint64_t other) const { return memory_.holds(one) && memory_.holds(other); }

  // The cell of the stack that begins with the caller of a hook; 0: not known.
  uint32_t capture(Registers caller);
  // The same as libunwind sees it.
  uint32_t capture_by_libunwind(Registers caller);

 private:
  // How a frame of HotSpot's code is laid out; `mortal`: and its method's class may be unloaded.
  enum class Java : uint8_t { no, compiled, interpreted, interpreted_mortal };
  struct alignas(64) Frame {
    uint64_t pc, sp, bp;
    // Where the caller's rbp is; &bp where it is the same. Java: where the Method* is.
    const uint64_t* bp_slot;
    // Where the rule loads the caller's sp from; null where it computes it. Java: the Method*.
    const uint64_t* cfa_slot;
    uint64_t code;  // Java: the method's number
    uint32_t cell;
    uint32_t id;      // stands for code and kind
    bool bp_is_dead;  // nothing further out depends on it
    uint8_t added;    // to what was loaded
    Java java;
    format::CellKind kind;
  };
  // Why there is no frame further out.
  enum class Stop : uint8_t { none, end, no_rule, bad_stack };

  static constexpr uint64_t kLargestFrame = 8 << 20;
  // Where a stack is deeper than that, it is cut at one of the next so many frames, at one whose address says so: stacks that
  // differ in a few inner frames are then cut at the same frame, and share their cells.
  // Frames kept beyond that, so that a stack of changing depth is not walked to its root each time.
  static uint32_t slack_for(uint32_t depth) { return depth / 2 < 32 ? depth / 2 : 32; }
  static uint32_t capacity_for(uint32_t depth) { return depth + slack_for(depth) + 32; }
  static void copy(Frame& to, const Frame& from);

  bool advance(Frame& frame, Registers* caller, Stop* stop, uint64_t* signal_context);
  bool find_caller(Frame& frame, uint64_t cfa, uint64_t rule, Registers* caller, Stop* stop);
  HEAPSPY_COLD bool advance_otherwise(Frame& frame, uint64_t rule, uint64_t context, Registers* caller, Stop* stop,
                                      uint64_t* signal_context);
  HEAPSPY_COLD bool advance_generated(Frame& frame, Registers* caller, Stop* stop);
  bool advance_interpreted(Frame& frame, Registers* caller, Stop* stop);
  bool is_plausible_bp(const Frame& frame);
  static bool generated_changed(const Frame& frame, Frame& caller);
  bool advance_by_frame_pointer(Frame& frame, Registers* caller, Stop* stop);
  bool is_plausible(const Registers& caller, uint64_t bp);
  int first_changed(int top, int last);
  HEAPSPY_COLD int root_changed();
  uint32_t keep(int top, int fresh);
  HEAPSPY_COLD int outermost_to_name() const;
  HEAPSPY_COLD int drop_outermost(int top, int fresh);
  uint32_t name_frames(int from);
  uint32_t cell_of(uint32_t parent, const Frame& frame);

  uint32_t depth_;
  uint32_t slack_;
  uint32_t capacity_;
  int count_;             // frames kept
  int base_;              // first frame that the cells spell; frames before it are beyond the depth
  bool special_;          // some kept frame is Java's, or has a cfa_slot: first_changed must look at more than two words each
  bool whole_;            // the first frame is the outermost
  bool root_may_change_;  // … because of what is in memory
  Stop stop_;
  // What the stack table's index said lately, as it stands there: the index itself is large, and cold.
  static constexpr uint64_t kRecent = 2048;
  uint64_t recent_[kRecent];
  uint64_t epoch_;  // of the modules
  StackMemory memory_;
  Frame* kept_;   // outermost first
  Frame* fresh_;  // innermost first
};

}  // namespace heapspy::unwind
