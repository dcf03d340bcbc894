// The replayer's own memory and ways to fail and wait: nothing here is the allocator's, and nothing private and anonymous.
#pragma once
#include <stdint.h>

namespace heapspy::trial {

// One line on stderr, exit status 1. `what`: the place, then errno's text.
[[noreturn]] void fail(const char* what);
// The same without errno.
[[noreturn]] void give_up(const char* why);

void* shared_memory(uint64_t bytes);  // zeros; of a memfd
uint64_t own_mappings();              // how many of these there are

uint64_t real_ns();  // of the machine's own clock, past what allocators are told
uint64_t cpu_ns();   // of this process
// Times that the calling thread left the CPU to wait.
uint64_t voluntary_switches();

// Waits until *word is not `value`. True: it slept.
bool wait_while(uint32_t* word, uint32_t value);
void wake(uint32_t* word, int threads);

}  // namespace heapspy::trial
