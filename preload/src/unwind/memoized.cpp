#include "memoized.h"

#include <initializer_list>

#include "libunwind.h"
#include "recorder.h"

namespace heapspy::unwind {

using namespace format;

namespace {

constexpr uint64_t kAddressLimit = 1ull << 47;

const uint64_t no_frame_pointer = 0;

uint64_t word_at(uint64_t address) { return *reinterpret_cast<const volatile uint64_t*>(address); }

// Where the kernel puts a register of the interrupted code, from the start of the ucontext (x86-64: uc_mcontext.gregs at 40).
constexpr uint64_t kContextRip = 40 + 8 * 16, kContextRsp = 40 + 8 * 15, kContextRbp = 40 + 8 * 10, kContextBytes = 40 + 8 * 17;
// By DWARF's number: rax rdx rcx rbx rsi rdi rbp rsp r8 … r15.
constexpr uint8_t kContextRegister[16] = {13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7};

// Whether what stands before `pc` is a call instruction: E8 with a difference, or FF /2 in one of its lengths.
bool follows_call(uint64_t pc) {
  if (!os::is_readable(pc - 8)) return false;
  const auto* at = reinterpret_cast<const uint8_t*>(pc);
  if (at[-5] == 0xe8) return true;
  for (const int length : {2, 3, 4, 6, 7})
    if (at[-length] == 0xff && (at[1 - length] >> 3 & 7) == 2) return true;
  return false;
}

}  // namespace

void Memoized::begin(uint32_t depth) {
  depth_ = depth;
  slack_ = slack_for(depth);
  capacity_ = capacity_for(depth);
  kept_ = reinterpret_cast<Frame*>(this + 1);
  fresh_ = kept_ + capacity_;
}

void Memoized::copy(Frame& to, const Frame& from) {
  to = from;
  if (from.bp_slot == &from.bp) to.bp_slot = &to.bp;
}

// False: `stop` says why there is no caller, and changeable_ whether that may be otherwise next time.
HEAPSPY_HOT bool Memoized::advance(Frame& frame, Registers* caller, Stop* stop, uint64_t* signal_context) {
  const uint64_t context = *signal_context;
  frame.java = Java::no;
  frame.kind = context ? CellKind::interrupted : CellKind::frame;
  if (HEAPSPY_UNLIKELY(recorder->hotspot.covers(frame.pc)) && !context) return advance_generated(frame, caller, stop);
  const Known known = recorder->rules.find(context ? frame.pc | kInterrupted : frame.pc);
  const uint64_t rule = known.rule;
  frame.code = known.code & ~kInterrupted;
  frame.id = id_of(known.rule);
  frame.cell = 0;
  frame.cfa_slot = nullptr;
  frame.bp_slot = &frame.bp;
  frame.bp_is_dead = false;
  uint64_t cfa;
  const RuleKind kind = kind_of(rule);
  if (kind == RuleKind::sp) {
    cfa = frame.sp + static_cast<uint64_t>(offset_of(rule));
  } else if (__builtin_expect(kind == RuleKind::bp, 1)) {
    cfa = frame.bp + static_cast<uint64_t>(offset_of(rule));
  } else {
    *signal_context = 0;
    return advance_otherwise(frame, rule, context, caller, stop, signal_context);
  }
  *signal_context = 0;
  return find_caller(frame, cfa, rule, caller, stop);
}

HEAPSPY_HOT bool Memoized::find_caller(Frame& frame, uint64_t cfa, uint64_t rule, Registers* caller, Stop* stop) {
  const auto bad_stack = [&] { return *stop = Stop::bad_stack, false; };
  if (HEAPSPY_UNLIKELY(cfa <= frame.sp || (cfa & 7) || !memory_.reaches(cfa))) return bad_stack();
  caller->pc = word_at(cfa - 8);
  caller->sp = cfa;
  caller->bp = frame.bp;
  const BpRule bp = bp_rule_of(rule);
  if (bp == BpRule::same) return true;
  uint64_t slot;
  if (__builtin_expect(bp == BpRule::at_cfa, 1)) {
    slot = cfa + static_cast<uint64_t>(bp_offset_of(rule));
    frame.bp_is_dead = kind_of(rule) == RuleKind::sp;
  } else if (bp == BpRule::at_bp) {
    slot = frame.bp + static_cast<uint64_t>(bp_offset_of(rule));
  } else {
    frame.bp_slot = &no_frame_pointer;
    caller->bp = 0;
    return true;
  }
  if (HEAPSPY_UNLIKELY(slot < frame.sp || (slot & 7) || !memory_.reaches(slot + 8))) return bad_stack();
  frame.bp_slot = reinterpret_cast<const uint64_t*>(slot);
  caller->bp = word_at(slot);
  return true;
}

bool Memoized::advance_otherwise(Frame& frame, uint64_t rule, uint64_t context, Registers* caller, Stop* stop,
                                 uint64_t* signal_context) {
  const uint64_t offset = static_cast<uint64_t>(offset_of(rule));
  switch (kind_of(rule)) {
    case RuleKind::at_sp:
    case RuleKind::at_bp: {
      const uint64_t slot = (kind_of(rule) == RuleKind::at_sp ? frame.sp : frame.bp) + offset;
      if (slot < frame.sp || (slot & 7) || !memory_.reaches(slot + 8)) return *stop = Stop::bad_stack, false;
      frame.cfa_slot = reinterpret_cast<const uint64_t*>(slot);
      frame.added = static_cast<uint8_t>(added_of(rule));
      return find_caller(frame, word_at(slot) + frame.added, rule, caller, stop);
    }
    case RuleKind::other:
      if (!context) break;
      return find_caller(frame, word_at(context + 40 + 8ull * kContextRegister[reg_of(rule)]) + offset, rule, caller, stop);
    case RuleKind::end: return *stop = Stop::end, false;
    case RuleKind::signal: {
      *stop = Stop::bad_stack;
      const uint64_t at = frame.sp;
      if (!memory_.reaches(at + kContextBytes)) return false;
      *caller = {word_at(at + kContextRip), word_at(at + kContextRsp), word_at(at + kContextRbp)};
      *signal_context = at;
      return memory_.enter(caller->sp);
    }
    case RuleKind::by_frame:
      if (recorder->hotspot.covers(frame.pc) && !context) return advance_generated(frame, caller, stop);
      if (!(frame.code >> 48) && recorder->hotspot.is_left_out()) break;
      return advance_by_frame_pointer(frame, caller, stop);
    default: break;
  }
  return *stop = Stop::no_rule, false;
}

// Whether this may be the caller of a frame whose rbp is `bp`.
bool Memoized::is_plausible(const Registers& caller, uint64_t bp) {
  const bool generated = recorder->rules.find(caller.pc).code >> 48 == 0;
  // Of pure frame pointers the loader's word is enough: that is as cheap as they are.
  if (!generated && recorder->file.header().stacks == Stacks::frame_pointers) return true;
  if (follows_call(caller.pc)) return true;
  // An interpreter's templates return to where nothing was called, but they have a frame pointer each.
  return generated && caller.bp > bp && caller.bp - bp < kLargestFrame && !(caller.bp & 7) && memory_.reaches(caller.bp + 16) &&
         os::is_readable(caller.pc);
}

// Code without unwind data, or mode fp: rbp is believed where it points up the stack at a return address.
bool Memoized::advance_by_frame_pointer(Frame& frame, Registers* caller, Stop* stop) {
  const uint64_t bp = frame.bp;
  // The ABI's mark of the outermost frame; of code that was made at run time rbp may be anything.
  if (bp == 0 && frame.code >> 48) return *stop = Stop::end, false;
  *stop = Stop::no_rule;
  if (bp < frame.sp || (bp & 7) || bp - frame.sp > kLargestFrame || !memory_.reaches(bp + 16)) return false;
  *caller = {word_at(bp + 8), bp + 16, word_at(bp)};
  if (caller->pc == 0) return *stop = Stop::end, false;
  if (caller->pc >= kAddressLimit || caller->pc < 4096) return false;
  if (!is_plausible(*caller, bp)) return false;
  frame.bp_slot = reinterpret_cast<const uint64_t*>(bp);
  *stop = Stop::none;
  return true;
}

// From frame `top` outward to `last`: the first whose caller is not what it was; -1: none.
HEAPSPY_HOT int Memoized::first_changed(int top, int last) {
  int i = top;
  const int until = last > 1 ? last : 1;
  if (__builtin_expect(!special_, 1)) {
    const Frame* frame = kept_ + top;
    for (const Frame* const end = kept_ + until; frame >= end; frame--) {
      const Frame& caller = frame[-1];
      if (HEAPSPY_UNLIKELY((word_at(caller.sp - 8) ^ caller.pc) | (*frame->bp_slot ^ caller.bp))) break;
    }
    i = static_cast<int>(frame - kept_);
  }
  for (; i >= until; i--) {
    const Frame& frame = kept_[i];
    Frame& caller = kept_[i - 1];
    if (HEAPSPY_UNLIKELY(frame.java != Java::no)) {
      if (generated_changed(frame, caller)) return i;
      continue;
    }
    if (HEAPSPY_UNLIKELY(word_at(caller.sp - 8) != caller.pc)) return i;
    const uint64_t bp = *frame.bp_slot;
    if (HEAPSPY_UNLIKELY(bp != caller.bp)) {
      if (!caller.bp_is_dead) return i;
      caller.bp = bp;
    }
    if (HEAPSPY_UNLIKELY(frame.cfa_slot != nullptr) && *frame.cfa_slot + frame.added != caller.sp) return i;
  }
  return last == 0 && HEAPSPY_UNLIKELY(root_may_change_) ? root_changed() : -1;
}

int Memoized::root_changed() {
  Frame root;
  copy(root, kept_[0]);
  Registers caller;
  Stop stop = Stop::none;
  uint64_t context = 0;
  const bool has_caller = advance(root, &caller, &stop, &context);
  if (has_caller ? stop_ == Stop::end && caller.pc == 0 : stop == stop_) return -1;
  return 0;
}

uint32_t Memoized::capture(Registers at) {
  if (const uint64_t epoch = recorder->modules.epoch(); HEAPSPY_UNLIKELY(epoch != epoch_)) epoch_ = epoch, count_ = 0;
  if (!memory_.enter(at.sp - 16)) return 0;
  const int depth = static_cast<int>(depth_ + slack_), capacity = static_cast<int>(capacity_);
  int top = count_, fresh = 0;
  uint64_t signal_context = 0;
  bool through_signal = false, met = false;
  Stop stop = Stop::none;
  bool may_change = false;
  for (;;) {
    while (top && kept_[top - 1].sp < at.sp) top--;
    if (top) {
      Frame& same = kept_[top - 1];
      if (same.sp == at.sp && same.pc == at.pc && (same.bp == at.bp || same.bp_is_dead)) {
        if (HEAPSPY_UNLIKELY(top + fresh < depth && !whole_)) {
          top = 0;  // frames further out are wanted than are kept
        } else {
          same.bp = at.bp;
          const int last = top + fresh > depth ? top + fresh - depth : 0;
          const int changed = first_changed(top - 1, last);
          if (changed < 0) {
            met = true;
            break;
          }
          if (fresh + top >= capacity) {
            top = 0;
          } else {
            while (top - 1 > changed) copy(fresh_[fresh++], kept_[--top]);
            const Frame& from = kept_[--top];
            at = {from.pc, from.sp, from.bp};
          }
        }
      }
    }
    if (fresh == capacity) break;
    Frame& frame = fresh_[fresh++];
    frame.pc = at.pc;
    frame.sp = at.sp;
    frame.bp = at.bp;
    if (!advance(frame, &at, &stop, &signal_context)) {
      may_change = stop == Stop::bad_stack || kind_of(recorder->rules.find(frame.pc).rule) == RuleKind::by_frame;
      break;
    }
    if (HEAPSPY_UNLIKELY(signal_context != 0)) through_signal = true, top = count_ = 0;
    if (HEAPSPY_UNLIKELY(at.pc - 1 >= kAddressLimit - 1) && !signal_context) {
      stop = at.pc ? Stop::bad_stack : Stop::end;
      may_change = true;
      break;
    }
  }
  if (!met) {
    top = 0;
    base_ = -1;
    whole_ = stop != Stop::none;
    stop_ = stop;
    root_may_change_ = may_change;
  }
  const uint32_t cell = keep(top, fresh);
  if (HEAPSPY_UNLIKELY(through_signal)) count_ = 0;  // stacks that a handler is on come and go: not worth the care
  return cell;
}

uint32_t Memoized::capture_by_libunwind(Registers caller) {
  if (const uint64_t epoch = recorder->modules.epoch(); epoch != epoch_) epoch_ = epoch, count_ = 0;
  auto** const addresses = reinterpret_cast<void**>(fresh_);
  constexpr int kOwn = 16;  // frames of the recorder itself, and of libunwind
  const int room = static_cast<int>(depth_ + slack_) + kOwn;
  const int got = libunwind::backtrace(addresses, room);
  int first = 0;
  while (first < got && first < kOwn && reinterpret_cast<uint64_t>(addresses[first]) != caller.pc) first++;
  if (first == got || first == kOwn) return capture(caller);
  const int count = got - first;
  const bool whole = got < room;
  bool same = whole == whole_ && base_ == 0 && count <= static_cast<int>(depth_);
  int kept = 0;
  for (int i = 0; i < count; i++) {
    const auto pc = reinterpret_cast<uint64_t>(addresses[got - 1 - i]);
    same = same && i < count_ && kept_[i].pc == pc;
    if (same) {
      kept = i + 1;
      continue;
    }
    const Known known = recorder->rules.find(pc);
    kept_[i].pc = pc;
    kept_[i].code = known.code;
    kept_[i].kind = CellKind::frame;
    kept_[i].id = id_of(known.rule);
  }
  count_ = count;
  whole_ = whole;
  stop_ = Stop::end;
  base_ = static_cast<uint32_t>(count_) > depth_ ? outermost_to_name() : 0;
  return kept == count ? kept_[count - 1].cell : name_frames(kept > base_ ? kept : base_);
}

// Puts the fresh frames on top of the `top` kept ones, and gives the cell of the innermost.
HEAPSPY_HOT uint32_t Memoized::keep(int top, int fresh) {
  if (HEAPSPY_UNLIKELY(top + fresh > static_cast<int>(capacity_))) top = drop_outermost(top, fresh);
  bool special = special_ && top;
  for (int i = fresh; i-- > 0;) {
    copy(kept_[top + fresh - 1 - i], fresh_[i]);
    special |= fresh_[i].java != Java::no || fresh_[i].cfa_slot;
  }
  special_ = special;
  count_ = top + fresh;
  const int base = __builtin_expect(static_cast<uint32_t>(count_) > depth_, 0) ? outermost_to_name() : 0;
  int from = base;
  if (__builtin_expect(base == base_, 1)) from = top > base ? top : base;
  base_ = base;
  if (from == count_) return kept_[count_ - 1].cell;
  return name_frames(from);
}

// Of a stack that is deeper than it may be.
int Memoized::outermost_to_name() const {
  const int most = count_ - static_cast<int>(depth_),
            least = most > static_cast<int>(slack_) ? most - static_cast<int>(slack_) : 0;
  for (int i = most; i > least; i--)
    if (((kept_[i].pc & 0xfff) * 0x9E3779B97F4A7C15ull >> 61) == 0) return i;  // the same in every run
  return least;
}

int Memoized::drop_outermost(int top, int fresh) {
  int drop = top + fresh - static_cast<int>(capacity_) + 16;
  if (drop > top) drop = top;
  for (int i = drop; i < top; i++) copy(kept_[i - drop], kept_[i]);
  base_ -= drop;
  whole_ = root_may_change_ = false;
  return top - drop;
}

HEAPSPY_HOT uint32_t Memoized::cell_of(uint32_t parent, const Frame& frame) {
  const uint64_t key = StackTable::key_of(parent, frame.id);
  uint64_t& recent = recent_[(key * 0x9E3779B97F4A7C15ull >> 40) % kRecent];
  if (__builtin_expect((recent ^ key) >> StackTable::kNumberBits == 0, 1) && frame.id) return StackTable::number_in(recent);
  const uint32_t cell = recorder->stacks.intern(parent, frame.code, frame.kind, frame.id);
  if (cell && frame.id) recent = key | cell;
  return cell;
}

// Gives the frames from `from` on their cells. 0: there is no room.
uint32_t Memoized::name_frames(int from) {
  uint32_t parent = 0;
  bool lost = false;
  if (from > base_) {
    parent = kept_[from - 1].cell;
    lost = !parent;
  } else if (base_ > 0 || !whole_ || stop_ != Stop::end) {
    const Cut cut = base_ > 0 || !whole_ ? Cut::depth : stop_ == Stop::no_rule ? Cut::no_rule : Cut::bad_stack;
    parent = recorder->stacks.intern(0, static_cast<uint64_t>(cut), CellKind::cut, 0);
    lost = !parent;
  }
  for (int i = from; i < count_; i++) {
    Frame& frame = kept_[i];
    if (!lost) {
      parent = cell_of(parent, frame);
      lost = !parent;
    }
    frame.cell = parent;
  }
  return lost ? 0 : parent;
}

}  // namespace heapspy::unwind
