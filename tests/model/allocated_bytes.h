// How many bytes this test program holds from operator new: tests compare two readings.
#pragma once
#include <cstdint>

namespace heapspy::test {

std::uint64_t allocated_bytes();

}  // namespace heapspy::test
