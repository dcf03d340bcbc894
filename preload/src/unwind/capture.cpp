#include "capture.h"

#include "recorder.h"

namespace heapspy::unwind {

namespace {

// Not in memory that fork wipes: the stack of a forked child is what its parent's was.
Memoized* make() {
  auto* memory = static_cast<Memoized*>(os::map_anonymous(Memoized::bytes_for(options.stack_depth)));
  if (!memory) return nullptr;
  memory->begin(options.stack_depth);
  recorder->unwinders.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

}  // namespace

void set_up() {
  if (options.stacks == format::Stacks::none) return;
#if defined(__x86_64__)
  if (!Modules::set_up()) options.stacks = format::Stacks::none;
#else
  options.stacks = format::Stacks::none;
#endif
}

uint64_t private_bytes() {
  return recorder->unwinders.load(std::memory_order_relaxed) * format::align_up(Memoized::bytes_for(options.stack_depth), 4096);
}

uint32_t Capture::capture_rarely(Registers caller) {
  if (nesting_ > 1) return 0;
  Memoized*& unwinder = nesting_ ? thread_.nested_unwinder : thread_.unwinder;
  if (!unwinder) unwinder = make();
  return unwinder ? unwinder->capture(caller) : 0;
}

// A handler that ended with longjmp never let its hook come back. Its frame is gone where the stack has become shorter.
void Capture::forget_abandoned(Registers caller) {
  if (caller.sp <= thread_.capture_sp || !thread_.unwinder || !thread_.unwinder->on_same_stack(caller.sp, thread_.capture_sp))
    return;
  nesting_ = 0;
  thread_.unwinder->forget_frames();
}

void Capture::check(Registers caller) {
  // Taken for abandoned by a handler whose stack lies within the program's: what is kept is of both.
  if (!nesting_ && thread_.capture_sp != caller.sp && thread_.unwinder) {
    thread_.unwinder->forget_frames();
    thread_.captures = 1;
    thread_.capture_sp = caller.sp;
    stack_ = thread_.unwinder->capture(caller);
  }
  if (!stack_ && recorder->alive) recorder->stacks.count_lost();
}

}  // namespace heapspy::unwind
