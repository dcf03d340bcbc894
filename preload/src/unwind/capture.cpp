#include "capture.h"

#include "libunwind.h"
#include "recorder.h"

namespace heapspy::unwind {

bool by_libunwind = false;

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
  if (LoadedObjects::set_up()) return;
#endif
  if (options.stacks_asked_for) message::no_stacks();
  options.stacks = format::Stacks::none;
}

void set_up_outside_hooks() {
  if (options.stacks != format::Stacks::libunwind || !recorder || !recorder->alive) return;
  if ((by_libunwind = libunwind::open())) return;
  message::no_libunwind();
  options.stacks = recorder->file.header().stacks = format::Stacks::dwarf;
}

uint64_t private_bytes() {
  return recorder->unwinders.load(std::memory_order_relaxed) * format::align_up(Memoized::bytes_for(options.stack_depth), 4096);
}

uint32_t Capture::capture_rarely(Registers caller) {
  if (nesting_ > 1) return 0;
  Memoized*& unwinder = nesting_ ? thread_.nested_unwinder : thread_.unwinder;
  if (!unwinder) unwinder = make();
  if (!unwinder) return 0;
  return by_libunwind ? unwinder->capture_by_libunwind(caller) : unwinder->capture(caller);
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
