#include "tests/model/allocated_bytes.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> held{0};

}  // namespace

namespace heapspy::test {

std::uint64_t allocated_bytes() { return held.load(); }

}  // namespace heapspy::test

void* operator new(std::size_t bytes) {
  void* block = std::malloc(bytes ? bytes : 1);
  if (!block) throw std::bad_alloc();
  held += malloc_usable_size(block);
  return block;
}

void operator delete(void* block) noexcept {
  if (block) held -= malloc_usable_size(block);
  std::free(block);
}

void operator delete(void* block, std::size_t) noexcept { operator delete(block); }
