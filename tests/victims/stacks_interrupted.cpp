// Allocates at four places in turn while another thread sends signals whose handler allocates, too: in the middle of the
// recorder's hooks, of its unwinder and between the words that it writes. Over liballocators that may be interrupted anywhere
// (lib_bump.c). Looks at the stack of each block. Prints how many were right of how many, of the program's and of the
// handler's.
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "recorded_stacks.h"

namespace {

using heapspy::format::Cut;

recorded::Trace trace;
recorded::Stack stack;
volatile bool done;
pthread_t main_thread;

struct Interruption {
  void* block;
  int depth;
  void* frames[64];
};
constexpr int kWarmUp = 20, kMost = 64, kBlocks = 256;
Interruption interruptions[kMost];
volatile int interrupted;
long samples, lost, right, in_handler, right_in_handler, cut;

void handler(int) {
  const int at = interrupted;
  if (at == kMost) return;
  Interruption& each = interruptions[at];
  each.block = malloc(33);
  each.depth = backtrace(each.frames, 64);
  interrupted = at + 1;
}

void* send(void*) {
  while (!done) {
    pthread_kill(main_thread, SIGUSR1);
    for (int i = 0; i < 2000; i++) __asm__ volatile("");
  }
  return nullptr;
}

template <int depth>
[[gnu::noinline]] void* allocate() {
  if constexpr (depth == 0) {
    void* volatile block = malloc(64);
    return block;
  } else {
    void* volatile block = allocate<depth - 1>();
    return block;
  }
}

}  // namespace

int main(int, char** argv) {
  const long rounds = atol(argv[1]);
  main_thread = pthread_self();
  void* first[4];
  backtrace(first, 4);
  void* (*const ways[])() = {allocate<1>, allocate<4>, allocate<2>, allocate<7>};
  constexpr int kDepths[] = {1, 4, 2, 7};
  int shallowest = 0;
  sigset_t user, before;
  sigemptyset(&user);
  sigaddset(&user, SIGUSR1);
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(SIGUSR1, &action, nullptr);
  pthread_t sender;
  pthread_create(&sender, nullptr, send, nullptr);
  for (long round = 0; round < rounds; round++) {
    void* blocks[kBlocks];
    for (int i = 0; i < kBlocks; i++) blocks[i] = ways[i / 2 % 4]();
    pthread_sigmask(SIG_BLOCK, &user, &before);
    for (int i = 0; i < kBlocks; i++) {
      trace.stack_of(blocks[i], &stack, true);
      if (!shallowest) shallowest = stack.depth - kDepths[0];
      if (round < kWarmUp) continue;  // the thread moves to a larger ring, and what it leaves is out of sight
      samples++;
      right += stack.found && stack.depth == shallowest + kDepths[i / 2 % 4];
    }
    for (int i = 0; i < interrupted; i++) {
      const Interruption& each = interruptions[i];
      trace.stack_of(each.block, &stack, true);
      bool same = stack.found && (stack.depth == each.depth || (stack.cut != Cut{} && stack.depth < each.depth));
      for (int k = 1; k < stack.depth && same; k++) same = stack.frames[k] == reinterpret_cast<uint64_t>(each.frames[k]);
      if (round < kWarmUp) continue;
      lost += !stack.found;  // it came while the recorder was busy with the thread itself
      if (!stack.found) continue;
      in_handler++;
      right_in_handler += same;
      cut += same && stack.depth < each.depth;  // it came while the recorder was about to learn how to go on from there
      if (!same && in_handler - right_in_handler == 1) {
        fprintf(stderr, "found %d depth %d and %d\n", stack.found, stack.depth, each.depth);
        for (int k = 0; k < each.depth || k < stack.depth; k++)
          fprintf(stderr, "  %12lx %12lx\n", k < stack.depth ? stack.frames[k] : 0,
                  k < each.depth ? reinterpret_cast<uint64_t>(each.frames[k]) : 0);
      }
    }
    trace.stack_of(blocks[kBlocks - 1], &stack);
    interrupted = 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  done = true;
  pthread_join(sender, nullptr);
  printf("program %ld of %ld, handler %ld of %ld, cut %ld, lost %ld\n", right, samples, right_in_handler, in_handler, cut,
         lost);
  return right == samples && right_in_handler == in_handler && in_handler > 100 && (lost + cut) * 20 < in_handler ? 0 : 1;
}
