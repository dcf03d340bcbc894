#include "sampled_set.h"

namespace heapspy::sampled_set {

uint8_t filter[1 << kFilterBits];

namespace {

// Buckets of a cache line. An address stands in one of the buckets from its own on; none is ever moved, so looking for one
// needs no lock. At 512 KiB between samples the set fills at some 32 GiB of live memory.
constexpr uint32_t kInBucket = 8, kBucketBits = 13, kBuckets = 1 << kBucketBits, kProbes = 4;
alignas(64) uintptr_t table[kBuckets * kInBucket];

uintptr_t* bucket(uintptr_t block, uint32_t probe) { return table + ((hash(block) + probe) & (kBuckets - 1)) * kInBucket; }

void count_in_filter(uintptr_t block, int change) {
  uint8_t& counter = filter[hash(block) >> (32 - kFilterBits)];
  uint8_t seen = __atomic_load_n(&counter, __ATOMIC_RELAXED);
  while (seen != 255 && !__atomic_compare_exchange_n(&counter, &seen, static_cast<uint8_t>(seen + change), true,
                                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

}  // namespace

bool add(uintptr_t block) {
  count_in_filter(block, 1);  // first: whoever frees the block must find it
  for (uint32_t probe = 0; probe < kProbes; probe++)
    for (uint32_t i = 0; i < kInBucket; i++) {
      uintptr_t none = 0;
      uintptr_t* place = bucket(block, probe) + i;
      if (!__atomic_load_n(place, __ATOMIC_RELAXED) &&
          __atomic_compare_exchange_n(place, &none, block, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return true;
    }
  count_in_filter(block, -1);
  return false;
}

bool remove(uintptr_t block) {
  for (uint32_t probe = 0; probe < kProbes; probe++)
    for (uint32_t i = 0; i < kInBucket; i++) {
      uintptr_t* place = bucket(block, probe) + i;
      uintptr_t expected = block;
      if (__atomic_load_n(place, __ATOMIC_RELAXED) == block &&
          __atomic_compare_exchange_n(place, &expected, 0, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        count_in_filter(block, -1);
        return true;
      }
    }
  return false;
}

}  // namespace heapspy::sampled_set
