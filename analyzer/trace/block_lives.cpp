#include "analyzer/trace/block_lives.h"

#include <algorithm>

namespace heapspy::trace {

namespace {

Ending ending_of(const Event& event, const Caller& caller) {
  Ending ending;
  ending.by = caller.thread;
  ending.high = caller.high;
  switch (event.act) {
    case Act::move_out: ending.call = Ending::Call::move; break;
    case Act::realloc_free: ending.call = Ending::Call::realloc_free; break;
    default: ending.release = static_cast<Release>(event.detail);
  }
  return ending;
}

Block unknown_block(std::uint64_t address) {
  Block block;
  block.address = address;
  block.known = false;
  return block;
}

// As observers see it where a realloc ends it: they know of no such block.
Block not_of_this_process(Block block) {
  block.known = false;
  return block;
}

}  // namespace

BlockLives::BlockLives(std::vector<Observer*> observers, const Settings& settings)
    : observers_(std::move(observers)), settings_(settings) {}

BlockLives::Fit BlockLives::apply(const Event& event, const Caller& caller, Tick now, bool force) {
  switch (event.act) {
    case Act::allocate:
    case Act::move_in: return begin(event, caller, now, force);
    case Act::release:
    case Act::realloc_free:
    case Act::move_out: return end(event, caller, now, force);
    case Act::resize: return resize(event, caller, now, force);
    case Act::move_late: move_late(event, caller, now); return Fit::yes;
    default: return Fit::yes;
  }
}

// ---- blocks of the parent ----------------------------------------------------------------------------------------
// Puts the parent's block at `address` into the table, where this process has not touched the address before. Returns the
// address's slot then; else `slot` as it was.
LiveSlot* BlockLives::inherit(LiveSlot* slot, std::uint64_t address) {
  if (!settings_.inherited || (slot && (slot->live || slot->lived))) return slot;
  const std::optional<Block> block = settings_.inherited->at_fork(address);
  if (!block) return slot;
  LiveSlot& made = table_.at(address);
  table_.begin_life(made, *block, 0);
  return &made;
}

// The parent's block at an address that is given out: the parent had given it back before it forked, or the child's call is
// lost. Which of the two happened when is not exact enough to wait for anything.
void BlockLives::leave(LiveSlot& slot, Tick now) {
  const Block block = slot.block();
  table_.end_life(slot);
  for (Observer* observer : observers_) observer->inherited_gone(block, now);
}

std::optional<Block> BlockLives::block_at(std::uint64_t address) const {
  if (const LiveSlot* slot = table_.find(address); slot && (slot->live || slot->lived))
    return slot->live ? std::optional(slot->block()) : std::nullopt;
  return settings_.inherited ? settings_.inherited->at_fork(address) : std::nullopt;
}

// ---- a block begins ----------------------------------------------------------------------------------------------
BlockLives::Fit BlockLives::begin(const Event& event, const Caller& caller, Tick now, bool force) {
  LiveSlot& slot = table_.at(event.address);
  const Block block = block_of(event, caller, now);
  if (settings_.inherited) [[unlikely]]
    if (inherit(&slot, event.address); slot.live && slot.inherited) leave(slot, now);
  if (slot.live || slot.noted) [[unlikely]] {
    if (slot.noted && settle_debt(event, caller, block, slot, now)) return Fit::yes;
    if (slot.live && !force && !caller.alone) return Fit::needs_dead;
    if (slot.live && event.act == Act::allocate && tell_before(slot, caller, block, now)) return Fit::yes;
    if (slot.live) end_early(slot, caller, now);
  }
  table_.begin_life(slot, block, caller.high);
  if (slot.noted) [[unlikely]]
    wake(slot, &caller, now);
  tell_begin(event, caller, block, now);
  return Fit::yes;
}

// True: a debt on the address was settled, and with it all that this allocation does.
bool BlockLives::settle_debt(const Event& event, const Caller& caller, const Block& block, LiveSlot& slot, Tick now) {
  AddressNotes& note = notes(slot);
  if (note.debts.empty()) return false;
  const bool kept = !slot.live && caller.cursor->ends_soon(slot.address, 1);
  const auto debt = std::find_if(note.debts.begin(), note.debts.end(), [&](const Debt& owed) {
    return owed.by != caller.thread && owed.high >= caller.low && !(kept && owed.overdue < now);
  });
  if (debt != note.debts.end()) {
    const Ending owed = *debt;
    note.debts.erase(debt);
    mend(slot);
    tidy(slot);
    if (slot.live) {  // one of the two lives was over before the other began: this one stays
      const Block before = slot.block();
      tell_end(before, owed, now);
      table_.begin_life(slot, block, caller.high);
      tell_begin(event, caller, block, now);
    } else {
      slot.lived = 1;
      if (owed.call != Ending::Call::move) recent_.add(block, owed);
      tell_begin(event, caller, block, now);
      tell_end(block, owed, now);
    }
    return true;
  }
  RecentEnds::End* recent = recent_.find(slot.address);
  if (slot.live || !recent || recent->ending.by == caller.thread || recent->ending.high < caller.low ||
      note.debts.back().call == Ending::Call::move)
    return false;
  // Swap: the debt ended the block before; the call that was said to have ended it ends this one.
  const Ending owed = note.debts.back();
  const RecentEnds::End last = *recent;
  note.debts.pop_back();
  recent_.add(block, last.ending);
  slot.lived = 1;
  mend(slot);
  tidy(slot);
  for (Observer* observer : observers_) observer->reattributed(last.block, last.ending.by, owed.by);
  tell_begin(event, caller, block, now);
  tell_end(block, last.ending, now);
  return true;
}

// True: the whole life of this block came before that of the one which lives there, and both its calls are told.
bool BlockLives::tell_before(const LiveSlot& slot, const Caller& caller, const Block& block, Tick now) {
  if (ThreadId{slot.thread} == caller.thread || slot.latest_birth() < caller.low) return false;
  const Event* end = caller.cursor->next_on(block.address, 1);
  if (!end || end->act != Act::release) return false;
  LiveSlot& noted = table_.at(block.address);
  notes(noted).told.push_back(caller.thread);
  mend(noted);
  for (Observer* observer : observers_) observer->lived_before(block, caller.thread, static_cast<Release>(end->detail), now);
  return true;
}

// The block that lives where another begins: loan, or vanish.
void BlockLives::end_early(LiveSlot& slot, const Caller& caller, Tick now) {
  const Block before = slot.block();
  const Tick latest = slot.latest_birth();
  table_.end_life(slot);
  mend(slot);
  if (settings_.lossy) {
    for (Observer* observer : observers_) observer->vanished(before, now);
    return;
  }
  Ending ending;
  AddressNotes& note = notes(slot);
  if (!note.debts.empty()) {  // no window admits it, but calls without a block and blocks without a call belong together
    ending = note.debts.back();
    note.debts.pop_back();
    tidy(slot);
  } else {
    ending.by = before.thread;
    const bool nested = latest >= caller.low;
    const Tick high = nested ? std::max(caller.high, latest) : caller.high;
    note.loans.push_back({before, ending.by, high, caller.thread, nested});
    if (!settings_.complete()) expire(slot.address, high);
  }
  tell_end(before, ending, now);
}

Block BlockLives::block_of(const Event& event, const Caller& caller, Tick now) const {
  Block block;
  block.address = event.address;
  block.size = event.size;
  block.born = now;
  block.thread = caller.thread;
  block.site = event.site;
  block.origin = static_cast<Origin>(event.detail);
  if (event.act != Act::allocate) {
    const Block before = caller.moving->empty() ? unknown_block(0) : caller.moving->back();
    block.born = before.born;
    block.origin = before.known ? before.origin : Origin::realloc;
  }
  return block;
}

void BlockLives::tell_begin(const Event& event, const Caller& caller, const Block& block, Tick now) {
  if (event.act == Act::allocate) {
    for (Observer* observer : observers_) observer->allocated(block, now);
    return;
  }
  const Block before = caller.moving->empty() ? unknown_block(0) : caller.moving->back();
  if (!caller.moving->empty()) caller.moving->pop_back();
  for (Observer* observer : observers_) observer->resized(before, block, caller.thread, now);
}

// ---- a block ends ------------------------------------------------------------------------------------------------
BlockLives::Fit BlockLives::end(const Event& event, const Caller& caller, Tick now, bool force) {
  LiveSlot* slot = inherit(table_.find(event.address), event.address);
  const bool moves = event.act == Act::move_out;
  if (slot && slot->noted && !moves && (is_told(*slot, caller) || repay(*slot, caller))) return Fit::yes;
  Ending ending = ending_of(event, caller);
  if (slot && slot->noted && !caller.not_this_block) undo_exchange(*slot, ending);

  if (slot && slot->live && !caller.not_this_block) [[likely]] {
    const Block block = slot->block();
    table_.end_life(*slot);
    if (!settings_.one_thread) {
      if (moves)
        recent_.forget(block.address);
      else
        recent_.add(block, ending);
    }
    if (slot->noted) [[unlikely]]
      wake(*slot, nullptr, now);
    if (moves)
      caller.moving->push_back(block.inherited ? not_of_this_process(block) : block);
    else
      tell_end(block, ending, now);
    return Fit::yes;
  }

  // Alone, no allocation can come that explains this; but another call may have been joined to the block it ended.
  const bool joined = slot && slot->lived && recent_.may_have_ended_since(event.address, caller.low, caller.thread);
  const bool hopeless = caller.alone && !joined;
  if (!force && !caller.alone) return Fit::needs_live;
  if (moves) caller.moving->push_back(unknown_block(event.address));
  ending.lived = slot && slot->lived;
  if (!hopeless)
    owe(table_.at(event.address), {ending, caller.cursor->estimate() + settings_.patience}, caller.low);
  else if (!moves)
    tell_unknown(event.address, ending, now);
  return Fit::yes;
}

// True: this free was told with its allocation (before).
bool BlockLives::is_told(LiveSlot& slot, const Caller& caller) {
  AddressNotes& note = notes(slot);
  const bool told = std::erase(note.told, caller.thread) != 0;
  if (told) tidy(slot);
  return told;
}

// A loan that this call can have been.
bool BlockLives::repay(LiveSlot& slot, const Caller& caller) {
  AddressNotes& note = notes(slot);
  const auto loan = std::find_if(note.loans.begin(), note.loans.end(), [&](const Loan& open) {
    return !slot.live || (caller.low <= open.high && (caller.thread != open.next || open.nested));
  });
  if (loan == note.loans.end()) return false;
  const Loan paid = *loan;
  note.loans.erase(loan);
  if (slot.live && paid.nested && paid.next == caller.thread && ThreadId{slot.thread} == caller.thread)
    note.exchanges.assign(1, {paid.block, caller.thread});
  tidy(slot);
  if (paid.said != caller.thread)
    for (Observer* observer : observers_) observer->reattributed(paid.block, paid.said, caller.thread);
  return true;
}

// The block that lives there ends by `ending`. If the thread that makes this call allocated an older block there, which was
// said to have been ended by the thread of this one, then each freed its own.
void BlockLives::undo_exchange(LiveSlot& slot, Ending& ending) {
  AddressNotes& note = notes(slot);
  if (!note.exchanges.empty()) {
    const Exchange exchange = note.exchanges.front();
    note.exchanges.clear();
    if (slot.live && ending.call == Ending::Call::release && exchange.older.thread == ending.by &&
        ThreadId{slot.thread} == exchange.next && exchange.next != ending.by) {
      for (Observer* observer : observers_) observer->reattributed(exchange.older, exchange.next, ending.by);
      ending.by = exchange.next;
    }
  }
  tidy(slot);
}

void BlockLives::owe(LiveSlot& slot, Debt debt, Tick low) {
  AddressNotes& note = notes(slot);
  RecentEnds::End* last = recent_.find(slot.address);
  if (slot.lived && recent_.may_have_ended_since(slot.address, low)) slot.mended = 1;  // or will be
  if (last && last->ending.high > debt.high && debt.call != Ending::Call::move) {
    // Swap (see the head of block_lives.h).
    mend(slot);
    const Ending later = last->ending;
    for (Observer* observer : observers_) observer->reattributed(last->block, later.by, debt.by);
    last->ending = debt;
    debt = {later, later.high};
  }
  note.debts.push_back(debt);
  if (!settings_.complete()) expire(slot.address, debt.high);
}

void BlockLives::tell_end(const Block& block, const Ending& ending, Tick now) {
  if (block.inherited) {
    for (Observer* observer : observers_)
      if (ending.call == Ending::Call::move)
        observer->inherited_gone(block, now);
      else
        observer->inherited_release(block, ending.by, ending.release, now);
    return;
  }
  switch (ending.call) {
    case Ending::Call::release:
      for (Observer* observer : observers_) observer->released(block, ending.by, ending.release, now);
      break;
    case Ending::Call::realloc_free:
      for (Observer* observer : observers_) observer->released_by_realloc(block, ending.by, now);
      break;
    case Ending::Call::move:  // told as a realloc of an unknown block when it came
      for (Observer* observer : observers_) observer->vanished(block, now);
      break;
  }
}

void BlockLives::tell_unknown(std::uint64_t address, const Ending& ending, Tick now) {
  if (ending.call == Ending::Call::move) return;  // told as a realloc of an unknown block
  if (settings_.partial) {
    for (Observer* observer : observers_) observer->unrecorded_release(ending.by, address, ending.release, now);
    return;
  }
  const bool inherited = settings_.forked && !ending.lived;
  for (Observer* observer : observers_) observer->unknown_release(ending.by, address, ending.release, inherited, now);
}

// ---- a block changes its size ------------------------------------------------------------------------------------
BlockLives::Fit BlockLives::resize(const Event& event, const Caller& caller, Tick now, bool force) {
  LiveSlot* slot = inherit(table_.find(event.address), event.address);
  if (!(slot && slot->live) && !force && !caller.alone) return Fit::needs_live;
  live_on(table_.at(event.address), event, caller, now);
  return Fit::yes;
}

void BlockLives::live_on(LiveSlot& slot, const Event& event, const Caller& caller, Tick now) {
  const bool was_live = slot.live;
  Block before = was_live ? slot.block() : unknown_block(event.address);
  if (before.inherited) before = not_of_this_process(before);
  Block after = before;
  after.known = true;
  after.inherited = false;
  after.lived_before = 0;
  after.size = event.size;
  after.thread = caller.thread;
  after.site = event.site;
  if (!was_live) after.origin = Origin::realloc;
  table_.begin_life(slot, after, caller.high);
  if (!was_live && slot.noted) wake(slot, nullptr, now);
  for (Observer* observer : observers_) observer->resized(before, after, caller.thread, now);
}

// A realloc's end whose begin was passed before it was known what became of it: the block moves at one moment.
void BlockLives::move_late(const Event& event, const Caller& caller, Tick now) {
  if (event.other == event.address || (event.other == 0 && is_live(event.address))) {
    live_on(table_.at(event.address), event, caller, now);
    return;
  }
  Block before = unknown_block(event.other);
  if (LiveSlot* slot = event.other ? inherit(table_.find(event.other), event.other) : nullptr; slot && slot->live) {
    before = slot->block();
    if (before.inherited) before = not_of_this_process(before);
    table_.end_life(*slot);
    if (slot->noted) wake(*slot, nullptr, now);
  }
  caller.moving->push_back(before);
  begin(event, caller, now, true);
}

// ---- notes -------------------------------------------------------------------------------------------------------
void BlockLives::mend(LiveSlot& slot) {
  slot.mended = 1;
  repaired_++;
}

AddressNotes& BlockLives::notes(LiveSlot& slot) {
  slot.noted = 1;
  return notes_[slot.address];
}

void BlockLives::tidy(LiveSlot& slot) {
  const auto found = notes_.find(slot.address);
  if (found != notes_.end() && !found->second.empty()) return;
  if (found != notes_.end()) notes_.erase(found);
  slot.noted = 0;
}

void BlockLives::wait(std::uint64_t address, Waiting waiting) { notes(table_.at(address)).waiting.push_back(waiting); }

void BlockLives::stop_waiting(std::uint64_t address, LaneIndex lane) {
  LiveSlot& slot = table_.at(address);
  std::erase_if(notes(slot).waiting, [&](const Waiting& waiting) { return waiting.lane == lane; });
  tidy(slot);
}

// `keeper`: who began the block, if the threads that wait for one to end must be held against that (keep).
void BlockLives::wake(LiveSlot& slot, const Caller* keeper, Tick now) {
  AddressNotes& note = notes(slot);
  const bool kept = keeper && !note.waiting.empty() && keeper->cursor->ends_soon(slot.address, 1);
  std::erase_if(note.waiting, [&](const Waiting& waiting) {
    if (waiting.for_live != slot.live || (kept && waiting.overdue < now)) return false;
    woken_.push_back(waiting.lane);
    return true;
  });
  tidy(slot);
}

void BlockLives::forget_all(Tick now) {
  std::vector<std::uint64_t> addresses;
  table_.for_each([&](const Block& block) { addresses.push_back(block.address); });
  for (const std::uint64_t address : addresses) {
    LiveSlot& slot = table_.at(address);
    const Block block = slot.block();
    table_.end_life(slot);
    if (slot.noted) wake(slot, nullptr, now);
    for (Observer* observer : observers_) observer->vanished(block, now);
  }
}

void BlockLives::expire(std::uint64_t address, Tick high) { expiries_.push({high, address}); }

void BlockLives::settle(Tick passed, Tick now) {
  while (!expiries_.empty() && expiries_.top().at < passed) {
    const std::uint64_t address = expiries_.top().address;
    expiries_.pop();
    settle_address(address, passed, now);
  }
}

void BlockLives::settle_address(std::uint64_t address, Tick passed, Tick now) {
  const auto found = notes_.find(address);
  if (found == notes_.end()) return;
  LiveSlot& slot = table_.at(address);
  std::erase_if(found->second.loans, [&](const Loan& loan) {
    if (loan.high >= passed) return false;
    for (Observer* observer : observers_) observer->release_unseen(loan.block, loan.said);
    return true;
  });
  std::vector<Ending> unknown;
  std::erase_if(found->second.debts, [&](const Ending& owed) {
    if (owed.high >= passed) return false;
    unknown.push_back(owed);
    return true;
  });
  tidy(slot);
  for (const Ending& owed : unknown) {
    // Every call is there and something went wrong here before: the end is one of the calls that were joined wrongly.
    // Else it is of a block that came from elsewhere, such as an allocator of a library's own.
    if (slot.live && settings_.complete() && slot.mended) {
      const Block block = slot.block();
      table_.end_life(slot);
      tell_end(block, owed, now);
    } else {
      tell_unknown(address, owed, now);
    }
  }
}

void BlockLives::settle_all(Tick now) {
  std::vector<std::uint64_t> addresses;
  for (const auto& [address, note] : notes_) addresses.push_back(address);
  std::sort(addresses.begin(), addresses.end());
  for (const std::uint64_t address : addresses) settle_address(address, kEndless, now);
  expiries_ = {};
}

}  // namespace heapspy::trace
