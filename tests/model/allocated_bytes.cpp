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

namespace {

void* take(std::size_t bytes) {
  void* block = std::malloc(bytes ? bytes : 1);
  if (block) held += malloc_usable_size(block);
  return block;
}

void give(void* block) {
  if (block) held -= malloc_usable_size(block);
  std::free(block);
}

}  // namespace

// All forms are replaced together: sanitizers pair each new with its delete.
void* operator new(std::size_t bytes) {
  if (void* block = take(bytes)) return block;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes); }
void operator delete(void* block) noexcept { give(block); }
void operator delete[](void* block) noexcept { give(block); }
void operator delete(void* block, std::size_t) noexcept { give(block); }
void operator delete[](void* block, std::size_t) noexcept { give(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { give(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { give(block); }
