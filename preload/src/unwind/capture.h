// The calling thread's stack as a number for its stream, and the order in which hook and signal handlers may say it.
//
// A handler may come at any instruction of a hook and allocate. What it captures it captures with an unwinder of its own, and
// after its event it says again which stack the stream had said before: the interrupted hook goes on as if nothing had been.
#pragma once
#include "memoized.h"
#include "thread_state.h"

namespace heapspy::unwind {

// Decides how stacks are taken, as HEAPSPY_STACKS asks for it; once, before the first event.
void set_up();
// Outside any hook, as early as may be: opens libunwind where it is asked for. Until then stacks are taken as by `dwarf`.
void set_up_outside_hooks();

// HEAPSPY_STACKS=libunwind, and it is open.
extern bool by_libunwind;

// While in scope, from before the capture until the words are claimed.
class Capture {
 public:
  HEAPSPY_HOT Capture(ThreadState& thread, Registers caller) : thread_(thread), nesting_(thread.captures) {
    if (HEAPSPY_UNLIKELY(nesting_)) forget_abandoned(caller);
    thread.captures = nesting_ + 1;
    if (!nesting_) thread.capture_sp = caller.sp;
    __asm__ volatile("" : : : "memory");
    Memoized* unwinder = nesting_ || HEAPSPY_UNLIKELY(by_libunwind) ? nullptr : thread.unwinder;
    stack_ = __builtin_expect(unwinder != nullptr, 1) ? unwinder->capture(caller) : capture_rarely(caller);
    if (HEAPSPY_UNLIKELY(!stack_ || thread.capture_sp != caller.sp)) check(caller);
  }
  HEAPSPY_HOT ~Capture() {
    __asm__ volatile("" : : : "memory");
    thread_.captures = nesting_;
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  uint32_t stack() const { return stack_; }
  // Interrupts the hook that the stream's latest stack belongs to.
  bool nested() const { return nesting_ != 0; }

 private:
  HEAPSPY_COLD void forget_abandoned(Registers caller);
  HEAPSPY_COLD uint32_t capture_rarely(Registers caller);
  HEAPSPY_COLD void check(Registers caller);

  ThreadState& thread_;
  uint32_t nesting_;
  uint32_t stack_;
};

// Bytes of memory that the unwinders of all threads have.
uint64_t private_bytes();

}  // namespace heapspy::unwind
