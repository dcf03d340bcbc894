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

// ---- a block begins ----------------------------------------------------------------------------------------------
BlockLives::Fit BlockLives::begin(const Event& event, const Caller& caller, Tick now, bool force) {
  LiveSlot& slot = table_.at(event.address);
  const Block block = block_of(event, caller, now);
  if (slot.live || slot.noted) [[unlikely]] {
    if (slot.live && !force && !caller.alone) return Fit::needs_dead;
    if (!begin_noted(event, caller, block, slot, now)) return Fit::yes;
  }
  table_.begin_life(slot, block);
  if (slot.noted) [[unlikely]]
    wake(slot);
  tell_begin(event, caller, block, now);
  return Fit::yes;
}

// False: the block's life is over already.
bool BlockLives::begin_noted(const Event& event, const Caller& caller, const Block& block, LiveSlot& slot, Tick now) {
  if (slot.live) {  // loan or vanish
    const Block before = slot.block();
    table_.end_life(slot);
    repaired_++;
    if (settings_.lossy) {
      for (Observer* observer : observers_) observer->vanished(before, now);
      return true;
    }
    Ending ending;
    ending.by = caller.frees_it_again ? caller.thread : before.thread;
    notes(slot).loans.push_back({before, ending.by, caller.high});
    expire(slot.address, caller.high);
    tell_end(before, ending, now);
    return true;
  }

  AddressNotes& note = notes(slot);
  if (note.debts.empty()) return true;
  const auto debt = std::find_if(note.debts.begin(), note.debts.end(),
                                 [&](const Ending& owed) { return owed.by != caller.thread && owed.high >= caller.low; });
  RecentEnds::End* recent = recent_.find(slot.address);
  if (debt != note.debts.end()) {
    const Ending owed = *debt;
    note.debts.erase(debt);
    slot.lived = 1;
    repaired_++;
    tidy(slot);
    tell_begin(event, caller, block, now);
    tell_end(block, owed, now);
    return false;
  }
  if (recent && recent->ending.by != caller.thread && recent->ending.high >= caller.low &&
      note.debts.back().call != Ending::Call::move) {
    // Swap: the debt ended the block before; the call that was said to have ended it ends this one.
    const Ending owed = note.debts.back();
    const RecentEnds::End last = *recent;
    note.debts.pop_back();
    recent_.forget(slot.address);
    slot.lived = 1;
    repaired_++;
    tidy(slot);
    for (Observer* observer : observers_) observer->reattributed(last.block, last.ending.by, owed.by);
    tell_begin(event, caller, block, now);
    tell_end(block, last.ending, now);
    return false;
  }
  for (const Ending& owed : note.debts) tell_unknown(slot.address, owed, slot.lived, now);
  note.debts.clear();
  tidy(slot);
  return true;
}

Block BlockLives::block_of(const Event& event, const Caller& caller, Tick now) const {
  Block block;
  block.address = event.address;
  block.size = event.size;
  block.born = now;
  block.thread = caller.thread;
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
  LiveSlot* slot = table_.find(event.address);
  const bool moves = event.act == Act::move_out;
  if (slot && slot->noted && !moves && repay(*slot, caller)) return Fit::yes;
  const Ending ending = ending_of(event, caller);

  if (slot && slot->live) [[likely]] {
    const Block block = slot->block();
    table_.end_life(*slot);
    if (!settings_.one_thread) {
      if (moves)
        recent_.forget(block.address);
      else
        recent_.add(block, ending);
    }
    if (slot->noted) [[unlikely]]
      wake(*slot);
    if (moves)
      caller.moving->push_back(block);
    else
      tell_end(block, ending, now);
    return Fit::yes;
  }

  if (!force && !caller.alone) return Fit::needs_live;
  if (moves) caller.moving->push_back(unknown_block(event.address));
  if (!caller.alone)
    owe(table_.at(event.address), ending);
  else if (!moves)
    tell_unknown(event.address, ending, slot && slot->lived, now);
  return Fit::yes;
}

// A loan that this call can have been.
bool BlockLives::repay(LiveSlot& slot, const Caller& caller) {
  AddressNotes& note = notes(slot);
  const auto loan =
      std::find_if(note.loans.begin(), note.loans.end(), [&](const Loan& open) { return caller.low <= open.high; });
  if (loan == note.loans.end()) return false;
  const Loan paid = *loan;
  note.loans.erase(loan);
  tidy(slot);
  if (paid.said != caller.thread)
    for (Observer* observer : observers_) observer->reattributed(paid.block, paid.said, caller.thread);
  return true;
}

void BlockLives::owe(LiveSlot& slot, Ending ending) {
  AddressNotes& note = notes(slot);
  RecentEnds::End* last = recent_.find(slot.address);
  if (last && last->ending.high > ending.high && ending.call != Ending::Call::move) {
    // Swap (see the head of block_lives.h).
    repaired_++;
    const Ending later = last->ending;
    for (Observer* observer : observers_) observer->reattributed(last->block, later.by, ending.by);
    last->ending = ending;
    ending = later;
  }
  note.debts.push_back(ending);
  expire(slot.address, ending.high);
}

void BlockLives::tell_end(const Block& block, const Ending& ending, Tick now) {
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

void BlockLives::tell_unknown(std::uint64_t address, const Ending& ending, bool lived, Tick now) {
  if (ending.call == Ending::Call::move) return;  // told as a realloc of an unknown block
  const bool inherited = settings_.forked && !lived;
  for (Observer* observer : observers_) observer->unknown_release(ending.by, address, ending.release, inherited, now);
}

// ---- a block changes its size ------------------------------------------------------------------------------------
BlockLives::Fit BlockLives::resize(const Event& event, const Caller& caller, Tick now, bool force) {
  LiveSlot* slot = table_.find(event.address);
  if (!(slot && slot->live) && !force && !caller.alone) return Fit::needs_live;
  live_on(table_.at(event.address), event, caller, now);
  return Fit::yes;
}

void BlockLives::live_on(LiveSlot& slot, const Event& event, const Caller& caller, Tick now) {
  const bool was_live = slot.live;
  const Block before = was_live ? slot.block() : unknown_block(event.address);
  Block after = before;
  after.known = true;
  after.size = event.size;
  after.thread = caller.thread;
  if (!was_live) {
    after.origin = Origin::realloc;
    if (slot.noted) {  // calls that ended a block here before this one cannot have ended this one
      AddressNotes& note = notes(slot);
      for (const Ending& owed : note.debts) tell_unknown(slot.address, owed, slot.lived, now);
      note.debts.clear();
      tidy(slot);
    }
  }
  table_.begin_life(slot, after);
  if (!was_live && slot.noted) wake(slot);
  for (Observer* observer : observers_) observer->resized(before, after, caller.thread, now);
}

// A realloc's end whose begin was passed before it was known what became of it: the block moves at one moment.
void BlockLives::move_late(const Event& event, const Caller& caller, Tick now) {
  if (event.other == event.address || (event.other == 0 && is_live(event.address))) {
    live_on(table_.at(event.address), event, caller, now);
    return;
  }
  Block before = unknown_block(event.other);
  if (LiveSlot* slot = event.other ? table_.find(event.other) : nullptr; slot && slot->live) {
    before = slot->block();
    table_.end_life(*slot);
    if (slot->noted) wake(*slot);
  }
  caller.moving->push_back(before);
  begin(event, caller, now, true);
}

// ---- notes -------------------------------------------------------------------------------------------------------
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

void BlockLives::wake(LiveSlot& slot) {
  AddressNotes& note = notes(slot);
  std::erase_if(note.waiting, [&](const Waiting& waiting) {
    if (waiting.for_live != slot.live) return false;
    woken_.push_back(waiting.lane);
    return true;
  });
  tidy(slot);
}

void BlockLives::expire(std::uint64_t address, Tick high) {
  if (high < kEndless - settings_.patience) expiries_.push({high + settings_.patience, address});
}

void BlockLives::settle_until(Tick now) {
  while (!expiries_.empty() && expiries_.top().at < now) {
    const std::uint64_t address = expiries_.top().address;
    expiries_.pop();
    settle_address(address, now, false);
  }
}

void BlockLives::settle_address(std::uint64_t address, Tick now, bool everything) {
  const auto found = notes_.find(address);
  if (found == notes_.end()) return;
  LiveSlot& slot = table_.at(address);
  auto over = [&](Tick high) {
    return everything || (high < kEndless - settings_.patience && high + settings_.patience < now);
  };
  std::erase_if(found->second.loans, [&](const Loan& loan) { return over(loan.high); });
  std::vector<Ending> unknown;
  std::erase_if(found->second.debts, [&](const Ending& owed) {
    if (!over(owed.high)) return false;
    unknown.push_back(owed);
    return true;
  });
  const bool lived = slot.lived;
  tidy(slot);
  for (const Ending& owed : unknown) tell_unknown(address, owed, lived, now);
}

void BlockLives::settle_all(Tick now) {
  std::vector<std::uint64_t> addresses;
  for (const auto& [address, note] : notes_) addresses.push_back(address);
  std::sort(addresses.begin(), addresses.end());
  for (const std::uint64_t address : addresses) settle_address(address, now, true);
  expiries_ = {};
}

}  // namespace heapspy::trace
