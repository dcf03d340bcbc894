// Allocates at random depths from 300 functions on eight threads, through exceptions, longjmp, alloca, over-aligned frames,
// tail calls, coroutines and signal handlers on a stack of their own, and compares each stack that the recorder wrote with
// glibc's backtrace(). Argument: samples in all. Prints how many there were and how many were equal.
#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include <atomic>
#include <stdexcept>

#include "recorded_stacks.h"

#pragma GCC optimize("optimize-sibling-calls")

namespace {

constexpr int kThreads = 8, kFunctions = 300, kCoroutines = 3, kCoroutineBytes = 256 << 10;

recorded::Trace trace;
std::atomic<long> samples, equal, cut, left;

struct Thread {
  uint64_t random;
  int jumps = 0;
  jmp_buf jump[64];
  ucontext_t main, coroutine[kCoroutines];
  int current = -1;
  recorded::Stack stack;
  void* frames[1100];
};
thread_local Thread* self;

uint64_t random_number() {
  uint64_t& r = self->random;
  r ^= r << 13, r ^= r >> 7, r ^= r << 17;
  return r;
}

[[gnu::noinline]] void sample_once() {
  if (left.load(std::memory_order_relaxed) <= 0) return;
  Thread& t = *self;
  void* block = malloc(random_number() % 300 + 1);
  const int depth = backtrace(t.frames, 1100);
  trace.stack_of(block, &t.stack);
  bool same = t.stack.found;
  const recorded::Stack& s = t.stack;
  // The innermost frames are this function's, by two calls.
  for (int i = 1; i < s.depth && same; i++) same = i < depth && s.frames[i] == reinterpret_cast<uint64_t>(t.frames[i]);
  const bool by_depth = s.cut == heapspy::format::Cut::depth;
  if (by_depth ? s.depth < 64 || s.depth >= depth : s.depth != depth || s.cut != heapspy::format::Cut{}) same = false;
  static std::atomic<int> shown;
  if (!same && shown++ < 3) {
    fprintf(stderr, "differ: found %d depth %d and %d cut %u\n", s.found, s.depth, depth, static_cast<unsigned>(s.cut));
    for (int i = 0; i < s.depth || i < depth; i++)
      fprintf(stderr, "  %2d %12lx %12lx\n", i, i < s.depth ? s.frames[i] : 0,
              i < depth ? reinterpret_cast<uint64_t>(t.frames[i]) : 0);
  }
  samples.fetch_add(1, std::memory_order_relaxed);
  left.fetch_sub(1, std::memory_order_relaxed);
  equal.fetch_add(same, std::memory_order_relaxed);
  cut.fetch_add(by_depth, std::memory_order_relaxed);
  free(block);
}

// The same stack again is the usual case, and keeps those of a million samples within the table.
[[gnu::noinline]] void sample() {
  for (int i = 0; i < 4; i++) sample_once();
}

void handler(int) { sample(); }

using Function = void (*)(int);
extern Function functions[kFunctions];
[[gnu::noinline]] void next(int depth) { return functions[random_number() % kFunctions](depth); }

[[gnu::noinline]] void over_aligned(int depth) {
  alignas(64) volatile char large[256];
  large[0] = 1;
  auto* more = static_cast<volatile char*>(alloca(random_number() % 300 + 16));
  more[0] = large[0];
  next(depth);
  large[1] = more[0];
}

template <int number>
[[gnu::noinline]] void function(int depth) {
  if (left.load(std::memory_order_relaxed) <= 0) return;
  if (depth <= 0) return sample();  // a tail call
  if (random_number() % 4 == 0) sample();
  Thread& t = *self;
  switch ((random_number() + number) % 10) {
    case 0: {
      auto* more = static_cast<volatile char*>(alloca(random_number() % 500 + 16));
      more[0] = 1;
      next(depth - 1);
      more[1] = 2;
      return;
    }
    case 1:
      try {
        next(depth - 1);
        if (random_number() % 3 == 0) throw std::runtime_error("thrown");
      } catch (const std::exception&) {
        sample();
      }
      return;
    case 2:
      if (t.current < 0 && t.jumps < 60) {
        const int mine = t.jumps++;
        if (!setjmp(t.jump[mine])) {
          next(depth - 1);
          if (random_number() % 2) longjmp(t.jump[mine], 1);
        }
        self->jumps = mine;
        sample();
      } else {
        next(depth - 1);
      }
      return;
    case 3: next(depth - 1); return next(depth - 2);
    case 4: return over_aligned(depth - 1);
    case 5:
      if (t.current >= 0) {
        const int mine = t.current;
        t.current = -1;
        swapcontext(&t.coroutine[mine], &t.main);
        t.current = mine;
      }
      return next(depth - 1);
    case 6:
      if (t.jumps < 20) raise(SIGUSR1);
      return next(depth - 1);
    default: return next(depth - 1);
  }
}

template <int... numbers>
struct Table {
  static constexpr Function all[] = {function<numbers>...};
};
template <int count, int... numbers>
struct MakeTable : MakeTable<count - 1, count - 1, numbers...> {};
template <int... numbers>
struct MakeTable<0, numbers...> : Table<numbers...> {};

Function functions[kFunctions];

void coroutine(int number) {
  for (;;) {
    self->current = number;
    next(25);
    self->current = -1;
    swapcontext(&self->coroutine[number], &self->main);
  }
}

void* run(void* seed) {
  self = static_cast<Thread*>(calloc(1, sizeof(Thread)));
  self->random = 88172645463325252ull;
  self->current = -1;
  stack_t own{};
  own.ss_size = 256 << 10;
  own.ss_sp = malloc(own.ss_size);
  sigaltstack(&own, nullptr);
  for (int i = 0; i < kCoroutines; i++) {
    ucontext_t& c = self->coroutine[i];
    getcontext(&c);
    c.uc_stack.ss_sp = malloc(kCoroutineBytes);
    c.uc_stack.ss_size = kCoroutineBytes;
    makecontext(&c, reinterpret_cast<void (*)()>(coroutine), 1, i);
  }
  for (unsigned turn = static_cast<unsigned>(reinterpret_cast<uintptr_t>(seed)) * 37; left.load() > 0;) {
    self->jumps = 0;
    // The same ways again and again, so that the stacks of a million samples find room in the table.
    self->random = 88172645463325252ull + turn++ % 300 * 7919;
    next(static_cast<int>(random_number() % 30));
    if (random_number() % 64 == 0) next(90);
    const int which = static_cast<int>(random_number() % kCoroutines);
    swapcontext(&self->main, &self->coroutine[which]);
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  left = argc > 1 ? atol(argv[1]) : 20000;
  memcpy(functions, MakeTable<kFunctions>::all, sizeof functions);
  void* first[4];
  backtrace(first, 4);  // opens libgcc_s
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  sigaction(SIGUSR1, &action, nullptr);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++) pthread_create(threads + i, nullptr, run, reinterpret_cast<void*>(i));
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  printf("samples %ld equal %ld\n", samples.load(), equal.load());
  fprintf(stderr, "cut %ld\n", cut.load());
  return samples == equal ? 0 : 1;
}
