// Who writes into which staging ring. Rings of threads that are gone are given to new ones, so memory follows the largest
// number of threads alive at once, not the number ever made.
//
// Threads: every function takes the registry's lock itself; callers have blocked their signals. Allocates by mapping only.
// Lives in the recorder's wipe-on-fork memory, zero at first.
#pragma once
#include <cstdint>

#include "counter_table.h"
#include "lock.h"
#include "thread_state.h"
#include "trace_file.h"

namespace heapspy {

class ThreadRegistry {
 public:
  // Before anything else: of the segment that the file is made with, and then that segment.
  uint64_t first_segment_bytes() const;
  bool begin(char* first_segment);
  // A state with a ring or counters, an id and the calling thread's tid. nullptr: none to be had (counted in the file's
  // header).
  ThreadState* add(uint32_t tid);
  // The thread's destructors run: as soon as the kernel says that it is gone its ring may be reused.
  void ending(ThreadState& thread);
  // Appends kAppendWords of the ring (a small ring: all). Moves the thread out of its small ring.
  // False: some of it could not be appended and is lost, counted.
  bool flush(ThreadState& thread);
  // Mode ring: the thread goes on in the ring that was filled longest ago.
  void leave_ring(ThreadState& thread);
  uint32_t threads_alive_bound() const { return active_; }
  // Bytes of memory of its own besides this object.
  uint64_t private_bytes() const;
  // The tid of every thread that is recorded and has not begun to end; without the lock, so one that comes or goes meanwhile
  // may be among them or not.
  template <class Visit>
  void for_each_living(Visit visit) const {
    for (const StateBlock* block = newest(states_at_); block; block = block->before)
      for (uint32_t i = 0; i < block->used; i++) {
        const ThreadState& thread = block->elements[i];
        const uint32_t tid = std::atomic_ref<uint32_t>(const_cast<uint32_t&>(thread.tid)).load(std::memory_order_relaxed);
        if (thread.life == Life::active && tid) visit(tid);
      }
  }
  // Every ring that there is, for a reader of the mapped words; without the lock: rings are added, never taken away.
  template <class Visit>
  void for_each_slot(Visit visit) const {
    for (const SlotBlock* block = newest(slots_at_); block; block = block->before)
      for (uint32_t i = 0; i < block->used; i++) visit(block->elements[i]);
  }

 private:
  template <class Element>
  struct Block {
    Block* before;
    Element* elements;
    uint32_t used, room;
  };
  using StateBlock = Block<ThreadState>;
  using SlotBlock = Block<Slot>;
  // The first blocks are small, so that a short process touches one page of all this; the others take two pages each.
  static constexpr uint32_t kFirstStates = 8, kFirstSlots = 16, kBlockBytes = 8192;

  template <class Element>
  static Block<Element>* more(Block<Element>* before);
  template <class Element>
  static const Block<Element>* newest(Block<Element>* const& blocks) {
    return std::atomic_ref<Block<Element>*>(const_cast<Block<Element>*&>(blocks)).load(std::memory_order_acquire);
  }
  ThreadState* unused_state();
  Slot* unused_slot();
  static void clear(ThreadState& thread);
  void forget(ThreadState& thread);
  struct SlotList {  // first in, first out
    Slot* first = nullptr;
    Slot* last = nullptr;
    void append(Slot& slot);
    Slot* take();
  };

  Slot* free_slot(bool small);
  Slot* more_slots(bool small);
  bool may_add(uint32_t slots, bool small) const;
  bool has_outlived_small_ring() const;
  bool add_slots(char* segment, uint32_t slots, bool small);
  void attach(ThreadState& thread, Slot& slot);
  static void point_at(ThreadState& thread, uint64_t position);
  void give_back(Slot& slot, uint64_t position);
  void restart(ThreadState& thread);
  bool append_up_to(ThreadState& thread, uint64_t end);
  void retire(ThreadState& thread);
  void reclaim_gone_threads(bool all);

  Lock lock_;
  StateBlock* states_at_ = nullptr;  // the newest
  SlotBlock* slots_at_ = nullptr;
  SlotList free_[2];    // whole, small
  SlotList filled_[2];  // mode ring: left by their owners, the oldest first
  uint64_t filled_so_far_ = 0;
  CounterTable counters_;  // modes count and full
  ThreadState* free_states_ = nullptr;
  uint32_t state_blocks_ = 0;  // besides the first
  uint32_t slot_blocks_ = 0;
  uint32_t small_slots_ = 0;
  uint32_t large_slots_ = 0;
  uint32_t active_ = 0;
  uint32_t ending_ = 0;
  uint32_t active_at_last_sweep_ = 0;
  StateBlock first_state_block_ = {};
  SlotBlock first_slot_block_ = {};
  Slot first_slots_[kFirstSlots] = {};
  ThreadState first_states_[kFirstStates] = {};
};

}  // namespace heapspy
