// The addresses of the blocks that are sampled and live, behind a filter that fits a processor's first-level cache: what almost
// every free of mode sample looks at, and all it looks at.
//
// Lock-free: any thread may call any function, also from a signal handler. Survives fork, so that a child knows the frees of
// the sampled blocks it inherited.
#pragma once
#include <cstdint>

#include "hot.h"

namespace heapspy::sampled_set {

inline constexpr int kFilterBits = 15;
// How many of the set's addresses have that hash; 255 for ever once it was reached.
extern uint8_t filter[1 << kFilterBits];

HEAPSPY_HOT uint32_t hash(uintptr_t block) {
  return static_cast<uint32_t>((static_cast<uint64_t>(block) >> 4) * 0x9E3779B97F4A7C15ull >> 32);
}

// False: certainly not in the set.
HEAPSPY_HOT bool may_contain(uintptr_t block) {
  return __atomic_load_n(&filter[hash(block) >> (32 - kFilterBits)], __ATOMIC_RELAXED) != 0;
}

// False: the places for its hash are taken.
bool add(uintptr_t block);
// False: was not in it.
bool remove(uintptr_t block);

}  // namespace heapspy::sampled_set
