// What the merge keeps about the few addresses whose events do not fit together yet: who waits for the block there to
// begin or end, ends without a beginning (debts), ends that were assumed (loans), and the ends that came last.
//
// One thread. Addresses that have notes are marked in the table of live blocks (LiveSlot::noted).
#pragma once
#include <cstdint>
#include <vector>

#include "analyzer/trace/event.h"

namespace heapspy::trace {

// A thread's place among the threads of the merge.
using LaneIndex = std::uint32_t;

// How a call ended a block.
struct Ending {
  ThreadId by = ThreadId::none;
  Tick high = 0;       // of the call's window: it was not later
  Tick overdue = 0;    // after this it is later than estimates usually are wrong
  bool lived = false;  // a block was seen at the address before the call: else a forked child may have it from its parent
  enum class Call : std::uint8_t { release, realloc_free, move } call = Call::release;
  Release release = Release::free;
};

// An end of which nobody has been told yet.
struct Debt : Ending {
  Tick overdue = 0;  // after this it is later than estimates usually are wrong
};

// An end that was told before the call that made it was seen, because the address had been given out again. The next call
// that can have been it pays the loan back.
struct Loan {
  Block block;
  ThreadId said = ThreadId::none;
  Tick high = 0;                   // the call was not later
  ThreadId next = ThreadId::none;  // that made this allocation
  bool nested = false;             // perhaps the lives are the other way round: the next one was short and came first
};

// A nested loan that the thread itself paid back whose block lives on: should the lives be the other way round after all, the
// thread of the older block will free that one.
struct Exchange {
  Block older;                     // told to have been ended by `next`
  ThreadId next = ThreadId::none;  // whose block lives there
};

struct Waiting {
  LaneIndex lane = 0;
  bool for_live = false;  // waits for a block to begin there; else for the one there to end
  Tick overdue = 0;       // as in Debt
};

struct AddressNotes {
  std::vector<Waiting> waiting;
  std::vector<Debt> debts;
  std::vector<Loan> loans;
  std::vector<Exchange> exchanges;  // at most one
  std::vector<ThreadId> told;       // these threads' next free here was told with the allocation before it
  bool empty() const { return waiting.empty() && debts.empty() && loans.empty() && exchanges.empty() && told.empty(); }
};

// The calls that ended blocks last, by address; the newest drive out the old. Bounded: after one that was driven out a repair
// is made when the address is settled, not at once.
class RecentEnds {
 public:
  struct End {
    Block block;
    Ending ending;
  };

  void add(const Block& block, const Ending& ending) {
    if (ends_.empty()) ends_.resize(std::size_t{1} << kBits);
    ends_[place(block.address)] = {block, ending};
  }
  void forget(std::uint64_t address) {
    if (End* end = find(address)) end->block.address = 0;
  }
  End* find(std::uint64_t address) {
    if (ends_.empty()) return nullptr;
    End& end = ends_[place(address)];
    return end.block.address == address ? &end : nullptr;
  }
  // False: no block at `address` was ended as late as `low`, or only by `but_for`. True also where it is not known, because
  // another's end of that time drove out the one that was here.
  bool may_have_ended_since(std::uint64_t address, Tick low, ThreadId but_for = ThreadId::none) const {
    if (ends_.empty()) return false;
    const End& end = ends_[place(address)];
    if (end.block.address == address && end.ending.by == but_for) return false;
    return end.block.address && end.ending.high >= low;
  }

 private:
  static constexpr int kBits = 12;
  static std::size_t place(std::uint64_t address) { return address * 0x9E3779B97F4A7C15ull >> (64 - kBits); }
  std::vector<End> ends_;
};

}  // namespace heapspy::trace
