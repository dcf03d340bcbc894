// Joins the calls of all threads, in the order of the merge, to lives of blocks, and tells the observers.
//
// A call fits when the state of its address admits it: an address must be free before it is given out, and given out
// before it is freed, by whatever thread. A call that does not fit should wait (timeline.cpp decides how long). When
// waiting leads nowhere the order within the windows of time was estimated wrong, or events are missing, and one of these
// rules makes it fit. None of them ever shows an address live twice, and each call is told exactly once.
//
//   debt   An end where no block lives is kept untold. An allocation there that comes later, of another thread and with a
//          window that overlaps, came first in truth: its block lives for no time, and the debt is settled. (Never an
//          allocation of the same thread: a thread's own order is exact.) When no such allocation can come any more,
//          the end is unknown; but while every call is in the trace, it is kept until it meets a loan.
//   swap   A debt on an address whose last block was ended by a call with a later window: this call ended that block,
//          and the later call becomes the debt. Without this rule a burst of quick hand-overs makes all later joins
//          wrong by one.
//   before An allocation where a block lives that another thread allocated at about the same time, and that its own thread soon
//          frees: that life came first, and is told at once as one of no length. Its free is skipped.
//   loan   An allocation where a block lives: the call that ended that block is still to come (it is late by an error of
//          estimation). The end is told now, with the thread that is likeliest, and the next fitting end pays it back.
//          If none does, the block was given back past the recorder, and the release is taken back. Paid back by the thread
//          that made the allocation, the two blocks may be exchanged: undone if the other thread frees one there next.
//   keep   A block that its own thread frees soon, in the thread's own order, is not given to an end or debt of another thread
//   that
//          is overdue: such a call lies anywhere in a long window, and the block is one of many short lives in it.
//   vanish The same where events are known to be lost: the end is one of them.
//
// One thread. Allocates only for addresses that need a rule.
#pragma once
#include <cstdint>
#include <queue>
#include <unordered_map>
#include <vector>

#include "analyzer/trace/address_notes.h"
#include "analyzer/trace/event.h"
#include "analyzer/trace/inherited.h"
#include "analyzer/trace/live_blocks.h"
#include "analyzer/trace/thread_cursor.h"

namespace heapspy::trace {

// Who makes a call, and when at the earliest and latest.
struct Caller {
  ThreadId thread = ThreadId::none;
  Tick low = 0;
  Tick high = 0;
  bool alone = false;                    // no other thread has events in this window: waiting leads nowhere
  std::vector<Block>* moving = nullptr;  // blocks that the thread's open reallocs took out, innermost last
  const ThreadCursor* cursor = nullptr;  // at this call
  bool not_this_block = false;           // the block that lives there now is none that this call can end
};

class BlockLives {
 public:
  enum class Fit { yes, needs_live, needs_dead };

  struct Settings {
    bool one_thread = false;  // no repairs: order is exact
    bool lossy = false;       // events are known to be missing
    bool forked = false;
    Tick patience = 0;                           // beyond which a call is later than estimates usually are wrong
    bool partial = false;                        // calls are missing by design, such as those that are too old for a ring
    const InheritedBlocks* inherited = nullptr;  // of a forked process whose parent's trace is at hand
    // Every call of the process is in the trace: each end belongs to a block in it. Then debts and loans are kept until
    // they meet.
    bool complete() const { return !lossy && !forked; }
  };

  BlockLives(std::vector<Observer*> observers, const Settings&);

  // Applies what `event` does to its address at `now`, if it fits or `force`. Only for events that name an address.
  Fit apply(const Event& event, const Caller&, Tick now, bool force);

  bool is_live(std::uint64_t address) {
    const LiveSlot* slot = table_.find(address);
    return slot && slot->live;
  }
  // For look-ahead: the live block there, if any.
  const LiveSlot* slot(std::uint64_t address) { return table_.find(address); }
  // The block that lives there, also one that came from the parent and that nothing has touched.
  std::optional<Block> block_at(std::uint64_t address) const;
  void prefetch(std::uint64_t address) const { table_.prefetch(address); }

  // From now on calls are missing: the program paused recording.
  void lose_sight() { settings_.lossy = settings_.partial = true; }

  // Every block that lives may have ended unseen: what is known of them is over.
  void forget_all(Tick now);

  void wait(std::uint64_t address, Waiting);
  void stop_waiting(std::uint64_t address, LaneIndex);
  // Lanes whose wait is over since it was last emptied; by the caller.
  std::vector<LaneIndex>& woken() { return woken_; }

  // True: debts or loans may be over. No event to come lies before `passed`: gives up those that lie before it.
  bool may_settle(Tick now) const { return !expiries_.empty() && expiries_.top().at < now; }
  void settle(Tick passed, Tick now);
  void settle_all(Tick now);

  std::uint64_t repaired() const { return repaired_; }
  std::uint64_t live() const { return table_.live(); }
  std::uint64_t table_bytes() const { return table_.table_bytes(); }
  template <typename Visit>
  void for_each(Visit visit) const {
    table_.for_each(visit);
  }

 private:
  struct Expiry {
    Tick at = 0;
    std::uint64_t address = 0;
    bool operator>(const Expiry& other) const { return at > other.at; }
  };

  LiveSlot* inherit(LiveSlot*, std::uint64_t address);
  void leave(LiveSlot&, Tick now);
  Fit begin(const Event&, const Caller&, Tick now, bool force);
  bool settle_debt(const Event&, const Caller&, const Block&, LiveSlot&, Tick now);
  bool tell_before(const LiveSlot&, const Caller&, const Block&, Tick now);
  void end_early(LiveSlot&, const Caller&, Tick now);
  Fit end(const Event&, const Caller&, Tick now, bool force);
  bool is_told(LiveSlot&, const Caller&);
  bool repay(LiveSlot&, const Caller&);
  void undo_exchange(LiveSlot&, Ending&);
  void owe(LiveSlot&, Debt, Tick low);
  Fit resize(const Event&, const Caller&, Tick now, bool force);
  void move_late(const Event&, const Caller&, Tick now);
  void live_on(LiveSlot&, const Event&, const Caller&, Tick now);

  Block block_of(const Event&, const Caller&, Tick now) const;
  void tell_begin(const Event&, const Caller&, const Block&, Tick now);
  void tell_end(const Block&, const Ending&, Tick now);
  void tell_unknown(std::uint64_t address, const Ending&, Tick now);

  AddressNotes& notes(LiveSlot&);
  void mend(LiveSlot&);
  void tidy(LiveSlot&);
  void wake(LiveSlot&, const Caller* keeper, Tick now);
  void expire(std::uint64_t address, Tick high);
  void settle_address(std::uint64_t address, Tick passed, Tick now);

  std::vector<Observer*> observers_;
  Settings settings_;
  LiveBlocks table_;
  RecentEnds recent_;
  std::unordered_map<std::uint64_t, AddressNotes> notes_;
  std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> expiries_;
  std::vector<LaneIndex> woken_;
  std::uint64_t repaired_ = 0;
};

}  // namespace heapspy::trace
