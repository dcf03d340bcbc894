// Units and places that many tests use.
#pragma once
#include <cstdint>

namespace heapspy::test {

inline constexpr std::uint64_t kMiB = 1 << 20;
inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kSecond = 1'000'000'000;   // in ticks of a trace that a test builds
inline constexpr std::uint64_t kHeap = 0x555500000000;    // where its main heap begins,
inline constexpr std::uint64_t kMapped = 0x7f3000000000;  // mapped blocks are,
inline constexpr std::uint64_t kRegion = 0x7f0010000000;  // and an arena's heap: a multiple of 64 MiB

}  // namespace heapspy::test
