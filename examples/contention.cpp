// The right verdict: nothing to save, and a warning. 16 threads allocate and free all the time, blocks too large for a thread
// cache, so that every call takes its arena's lock. Each has an arena of its own and nobody waits. With MALLOC_ARENA_MAX=1 they
// all want the same lock: `heapspy replay TRACE --with default,arena_max=1` shows what they wait. Whoever looks at the number
// of arenas only, and sets it to 1 or 2, pays with time for memory that was never there.
//
// With --without, one thread after the other does the same: then one arena would do.
//
// Arguments: threads (default 16), calls of each (default 60 000), blocks that each holds (default 16).
#include <pthread.h>

#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "stage.h"

namespace {

std::mutex turn;

[[gnu::noinline]] void serve(std::uint64_t seed, long calls, std::size_t held) {
  std::vector<char*> blocks(held);
  for (long i = 0; i < calls; i++) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;  // xorshift64
    char*& block = blocks[seed % held];
    std::free(block);
    const std::size_t bytes = 1100 + seed % 3000;
    block = static_cast<char*>(std::malloc(bytes));
    if (block == nullptr) std::abort();
    std::memset(block, 1, 64);
  }
  for (char* block : blocks) std::free(block);
}

}  // namespace

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[THREADS [CALLS [HELD]]] [--without]");
  const long threads = arguments.get(0, 16), calls = arguments.get(1, 60'000);
  const auto held = static_cast<std::size_t>(arguments.get(2, 16));
  stage::say("at the start");

  pthread_barrier_t everybody;
  pthread_barrier_init(&everybody, nullptr, static_cast<unsigned>(threads + 1));
  std::vector<std::thread> workers;
  for (long i = 0; i < threads; i++)
    workers.emplace_back([&, i] {
      pthread_barrier_wait(&everybody);  // nobody starts early
      if (arguments.without) {
        const std::lock_guard mine(turn);
        serve(static_cast<std::uint64_t>(i) * 7919 + 1, calls, held);
      } else {
        serve(static_cast<std::uint64_t>(i) * 7919 + 1, calls, held);
      }
      pthread_barrier_wait(&everybody);  // the work is done
      pthread_barrier_wait(&everybody);  // the program may end
    });
  pthread_barrier_wait(&everybody);
  pthread_barrier_wait(&everybody);
  stage::say("all calls done");

  stage::hold(arguments);
  pthread_barrier_wait(&everybody);
  for (std::thread& worker : workers) worker.join();
}
