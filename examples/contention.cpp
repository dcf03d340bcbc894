// The right verdict: nothing to change, and never MALLOC_ARENA_MAX=1. Sixteen threads replace blocks as fast as they can, of
// sizes that no thread cache holds, so each call takes its arena's lock. What the arenas hold is live: one arena for all would
// save little, and the threads would wait for each other (`heapspy replay --order window`, `heapspy compare`: lock waits, CPU).
//
// Arguments: threads (default 16), replacements per thread (default 200000), blocks that each keeps (default 1000).
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "stage.h"

namespace {

void replace(std::uint64_t state, long replacements, long kept) {
  std::vector<char*> blocks(static_cast<std::size_t>(kept));
  for (long i = 0; i < replacements; i++) {
    state ^= state << 13;  // xorshift64
    state ^= state >> 7;
    state ^= state << 17;
    char*& block = blocks[state % blocks.size()];
    std::free(block);
    const std::size_t size = 1100 + (state >> 32) % 2900;
    block = stage::keep(static_cast<char*>(std::malloc(size)));
    block[0] = block[size - 1] = 1;
  }
  for (char* block : blocks) std::free(block);
}

}  // namespace

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[THREADS] [REPLACEMENTS] [KEPT]");
  std::vector<std::thread> threads;
  for (long i = 0; i < arguments.get(0, 16); i++)
    threads.emplace_back(replace, 0x9E3779B97F4A7C15u * static_cast<std::uint64_t>(i + 1), arguments.get(1, 200000),
                         arguments.get(2, 1000));
  for (std::thread& each : threads) each.join();
  stage::say("all threads have ended");
  stage::hold(arguments);
}
