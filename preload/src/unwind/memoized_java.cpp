// Frames of HotSpot's code: what they lead to, and what must be as it was for it still to hold.
#include "heapspy/format/java_place.h"
#include "memoized.h"
#include "recorder.h"

namespace heapspy::unwind {

using namespace format;

namespace {

uint64_t word_at(uint64_t address) { return *reinterpret_cast<const volatile uint64_t*>(address); }

}  // namespace

bool Memoized::is_plausible_bp(const Frame& frame) {
  return frame.bp >= frame.sp && !(frame.bp & 7) && frame.bp - frame.sp <= kLargestFrame && memory_.reaches(frame.bp + 16);
}

// HotSpot's code. What is not as it must be ends the stack there.
bool Memoized::advance_generated(Frame& frame, Registers* caller, Stop* stop) {
  using Kind = HotspotCode::Kind;
  HotspotCode& hotspot = recorder->hotspot;
  frame.code = frame.pc;
  frame.id = frame.cell = 0;
  frame.bp_slot = &frame.bp;
  frame.cfa_slot = nullptr;
  frame.bp_is_dead = false;
  const HotspotCode::Blob blob = hotspot.blob_at(frame.pc);
  HotspotMethods::Named named{};
  uint64_t slot = frame.sp;
  switch (blob.kind) {
    case Kind::none: return *stop = Stop::no_rule, false;
    case Kind::interpreted: return advance_interpreted(frame, caller, stop);
    case Kind::call:
    case Kind::by_frame: named = hotspot.methods.stub(blob.name); break;
    case Kind::compiled:
      slot = reinterpret_cast<uint64_t>(hotspot.method_slot(blob));
      named = hotspot.methods.compiled(blob.start, frame.pc, frame.sp);
      if (!named.number) return *stop = Stop::no_rule, false;
      frame.java = Java::compiled;
      break;
    case Kind::stub:
    case Kind::deoptimization: named = hotspot.methods.stub(blob.name); break;
  }
  if (named.number)
    frame.kind = named.is_place ? kJavaPlaceCell : CellKind::java, frame.code = named.number, frame.id = named.id;
  if (blob.kind == Kind::by_frame) {
    if (advance_by_frame_pointer(frame, caller, stop)) return true;
    // A zero is no end: of a virtual thread the rest may be in the Java heap.
    return *stop = Stop::no_rule, false;
  }
  if (blob.kind == Kind::call) {
    if (!is_plausible_bp(frame)) return *stop = Stop::bad_stack, false;
    *caller = {word_at(frame.bp + 8), frame.bp + 16, word_at(frame.bp)};
    frame.bp_slot = reinterpret_cast<const uint64_t*>(frame.bp);
    return true;
  }
  const uint64_t cfa = frame.sp + 8ull * blob.frame_words;
  if (blob.frame_words < 2 || !memory_.reaches(cfa)) return *stop = Stop::bad_stack, false;
  *caller = {word_at(cfa - 8), cfa, word_at(cfa - 16)};
  // Nothing else calls such code. A garbage collector's barrier may have left more on the stack than the frame: not known.
  const HotspotCode::Kind caller_kind = hotspot.covers(caller->pc) ? hotspot.blob_at(caller->pc).kind : Kind::none;
  if (caller_kind == Kind::none) return *stop = Stop::bad_stack, false;
  // While a compiled frame is taken apart, the interpreter's frames that replace it have no method yet.
  if (blob.kind == Kind::deoptimization && caller_kind == Kind::interpreted) return *stop = Stop::no_rule, false;
  frame.bp_is_dead = true;
  if (frame.java == Java::compiled) {
    frame.bp_slot = reinterpret_cast<const uint64_t*>(slot);
    frame.cfa_slot = reinterpret_cast<const uint64_t*>(hotspot.methods.code_identity(blob.start));
    return true;
  }
  frame.bp_slot = reinterpret_cast<const uint64_t*>(cfa - 16);
  return true;
}

bool Memoized::advance_interpreted(Frame& frame, Registers* caller, Stop* stop) {
  const uint64_t bp = frame.bp;
  if (!is_plausible_bp(frame) || bp - frame.sp < 64) return *stop = Stop::bad_stack, false;
  const uint64_t method = word_at(bp - 24), sp = word_at(bp - 8);
  // Below the frame's arguments, or where one more was that a method handle took away.
  if (sp <= bp || (sp & 7) || sp - bp > kLargestFrame || !memory_.reaches(sp)) return *stop = Stop::bad_stack, false;
  *caller = {word_at(bp + 8), sp, word_at(bp)};
  HotspotCode& hotspot = recorder->hotspot;
  if (!hotspot.covers(caller->pc) || hotspot.blob_at(caller->pc).kind == HotspotCode::Kind::none)
    return *stop = Stop::bad_stack, false;
  const HotspotMethods::Named named = hotspot.methods.interpreted(method, word_at(bp - 64));
  if (!named.number) return *stop = Stop::no_rule, false;
  frame.kind = named.is_place ? kJavaPlaceCell : CellKind::java;
  frame.code = named.number;
  frame.id = named.id;
  frame.java = named.is_mortal ? Java::interpreted_mortal : Java::interpreted;
  frame.bp_slot = reinterpret_cast<const uint64_t*>(bp - 24);
  frame.cfa_slot = reinterpret_cast<const uint64_t*>(method | hotspot.methods.bci_bits(method, word_at(bp - 64)));
  return true;
}

// Whether the caller of a Java frame is not what it was, or the frame is another method's or at another place of it.
bool Memoized::generated_changed(const Frame& frame, Frame& caller) {
  const auto identity = reinterpret_cast<uint64_t>(frame.cfa_slot);
  const HotspotMethods& methods = recorder->hotspot.methods;
  uint64_t bp;
  if (frame.java == Java::compiled) {
    if (methods.identity_at(reinterpret_cast<uint64_t>(frame.bp_slot)) != identity) return true;
    if (word_at(caller.sp - 8) != caller.pc) return true;
    bp = word_at(caller.sp - 16);
  } else {
    const uint64_t method = word_at(reinterpret_cast<uint64_t>(frame.bp_slot)), bcp = word_at(frame.bp - 64);
    if ((identity ^ method) << 16 || (method | methods.bci_bits(method, bcp)) != identity) return true;
    if (word_at(frame.bp + 8) != caller.pc || word_at(frame.bp - 8) != caller.sp) return true;
    bp = word_at(frame.bp);
    if (frame.java == Java::interpreted_mortal && recorder->hotspot.methods.interpreted(method, bcp).number != frame.code)
      return true;
  }
  if (bp == caller.bp) return false;
  if (!caller.bp_is_dead) return true;
  caller.bp = bp;
  return false;
}

}  // namespace heapspy::unwind
