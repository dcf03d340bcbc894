// w2: 100 000 live blocks of 16 to 4111 bytes (few of them large); again and again a random one is freed and replaced.
// Nearly every event misses the cache. Argument: replacements (default 4 000 000).
#include "workload.h"

enum { kSlots = 100000 };
static char* slot[kSlots];

// 16 plus less than 16 << (0 … 8): each range of sizes is as likely as the next, so large blocks are rare.
static size_t random_size(uint64_t* state) {
  const unsigned shift = (unsigned)(next_random(state) % 9);
  return 16 + next_random(state) % (16u << shift);
}

static void fill(char** at, uint64_t* state) {
  *at = malloc(random_size(state));
  **at = 1;
}

int main(int argc, char** argv) {
  const long replacements = argument(argc, argv, 1, 4000000);
  uint64_t state = 88172645463325252ull;
  for (int i = 0; i < kSlots; i++) fill(&slot[i], &state);

  const double start = seconds_now();
  for (long i = 0; i < replacements; i++) {
    char** at = &slot[next_random(&state) % kSlots];
    free(*at);
    fill(at, &state);
  }
  const double seconds = seconds_now() - start;

  for (int i = 0; i < kSlots; i++) free(slot[i]);
  print_result("w2", 2.0 * (double)replacements, seconds);
  return 0;
}
