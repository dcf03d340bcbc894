// w4: replacements 30 frames deep, in code without frame pointers and with exception tables; the way down changes every
// 100 pairs. What a recorder pays for call stacks shows here. Argument: pairs (default 4 000 000).
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "workload.h"

namespace {

constexpr int kDepth = 29;  // and the leaf
constexpr long kPairsPerDescent = 100;

std::uint64_t state = 88172645463325252ull;
char* slot[1024];
volatile int depth;

// A destructor in every frame, so that each has a landing pad and unwind rules worth reading.
struct Scope {
  Scope() { depth = depth + 1; }
  ~Scope() { depth = depth - 1; }
};

[[gnu::noinline]] void replace(long pairs) {
  for (long i = 0; i < pairs; i++) {
    char*& at = slot[next_random(&state) % 1024];
    std::free(at);
    at = static_cast<char*>(std::malloc(32 + next_random(&state) % 256));
    if (at == nullptr) throw std::runtime_error("out of memory");
    *at = 1;
  }
}

// Two call sites per level: bits of `way` choose, so that stacks differ.
template <int level>
[[gnu::noinline]] long descend(long pairs, unsigned way) {
  if constexpr (level == 0) {
    replace(pairs);
    KEEP(&pairs);
    return pairs;
  } else {
    Scope scope;
    char padding[64];
    KEEP(padding);
    long result;
    if (way & 1)
      result = descend<level - 1>(pairs, way >> 1) + 1;
    else
      result = descend<level - 1>(pairs, way >> 1 | 4) + 2;
    KEEP(&result);
    return result;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const long pairs = argument(argc, argv, 1, 4000000);
  const double start = seconds_now();
  for (long done = 0; done < pairs; done += kPairsPerDescent)
    descend<kDepth>(kPairsPerDescent, static_cast<unsigned>(next_random(&state) & 7));
  const double seconds = seconds_now() - start;

  for (char* block : slot) std::free(block);
  print_result("w4", 2.0 * static_cast<double>(pairs), seconds);
}
