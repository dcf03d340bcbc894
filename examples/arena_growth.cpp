// The right verdict: arena growth. Dozens of threads work one after the other, each in an arena of its own, and every
// arena keeps what its largest burst needed: little live, much resident, in up to 8 x CPUs regions of 64 MiB.
//
// MALLOC_ARENA_MAX=1 or 2 saves most of it, because the bursts do not overlap and could use the same memory; the price is
// lock contention when threads do allocate at once (--without: they all do, and then it saves little and costs much).
// `heapspy trim` gives the whole pages back now; they come again with the next bursts.
//
// Each thread keeps one small block of every 1000: without them an arena's heap would shrink by itself.
//
// Arguments: threads (default 32), MiB per burst (default 16), bursts per thread (default 3).
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "stage.h"

namespace {

std::mutex turn;

void* kept[64 * 1024];
std::atomic<std::size_t> kept_count{0};

struct Random {  // xorshift64
  std::uint64_t state;
  std::uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
  }
};

// What a request does: many small blocks, all given back but one in 1000.
void burst(Random& random, std::size_t bytes) {
  std::vector<char*> blocks;
  for (std::size_t sum = 0; sum < bytes;) {
    const std::size_t size = 64 + random.next() % 1984;
    char* block = static_cast<char*>(std::malloc(size));
    if (block == nullptr) std::abort();
    std::memset(block, 1, size);
    blocks.push_back(block);
    sum += size;
  }
  for (std::size_t i = 0; i < blocks.size(); i++) {
    const std::size_t place = i % 1000 == 999 ? kept_count.fetch_add(1) : std::size(kept);
    if (place < std::size(kept))
      kept[place] = blocks[i];
    else
      std::free(blocks[i]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[THREADS [MIB [BURSTS]]] [--without]");
  const long threads = arguments.get(0, 32);
  const auto bytes = static_cast<std::size_t>(arguments.get(1, 16)) << 20;
  const long bursts = arguments.get(2, 3);
  stage::say("at the start");

  // All threads stay alive to the end, so that none inherits the arena of one that is gone.
  pthread_barrier_t everybody;
  pthread_barrier_init(&everybody, nullptr, static_cast<unsigned>(threads + 1));
  std::vector<std::thread> workers;
  for (long i = 0; i < threads; i++)
    workers.emplace_back([&, i] {
      char name[16];
      std::snprintf(name, sizeof name, "burst-%ld", i);
      pthread_setname_np(pthread_self(), name);
      Random random{static_cast<std::uint64_t>(i) * 7919 + 1};
      for (long k = 0; k < bursts; k++) {
        if (arguments.without) {
          burst(random, bytes);
        } else {
          const std::lock_guard mine(turn);
          burst(random, bytes);
        }
      }
      pthread_barrier_wait(&everybody);  // the work is done
      pthread_barrier_wait(&everybody);  // the program may end
    });
  pthread_barrier_wait(&everybody);
  stage::say("all bursts over");

  stage::hold(arguments);
  pthread_barrier_wait(&everybody);
  for (std::thread& worker : workers) worker.join();
}
