// The calls of a trace, and how one is made.
#pragma once
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#include "../operation.h"

namespace heapspy::trial {

class Calls {
 public:
  void map(const char* path);  // fails in one line

  const OperationsHeader& header() const { return *header_; }
  const Operation& operator[](uint64_t at) const { return operations_[at]; }
  uint64_t duration_us() const { return operations_[header_->operations - 1].time_us; }

  // What the operation does to its block, if it is a call.
  void make(const Operation&);
  uint64_t failed() const { return failed_; }  // allocations that the allocator refused

 private:
  static constexpr uint64_t kPage = 4096;
  static void touch(char* block, const Operation&);
  void keep(const Operation&, void* block);
  void keep_moved(const Operation&, void* block);

  const OperationsHeader* header_ = nullptr;
  const Operation* operations_ = nullptr;
  void** blocks_ = nullptr;  // by slot
  uint64_t failed_ = 0;
};

// The first bytes, and so many whole pages from the first one on; where that is each of them, what follows the last, too.
inline void Calls::touch(char* block, const Operation& operation) {
  if (!block || !operation.size) return;
  const auto bytes = static_cast<volatile char*>(block);
  bytes[0] = 1;
  const uint64_t size = operation.size, first = (kPage - reinterpret_cast<uint64_t>(block) % kPage) % kPage;
  uint64_t pages = operation.touch_pages, at = first;
  for (; pages && at + kPage <= size; pages--, at += kPage) bytes[at] = 1;
  if (at + kPage > size && (operation.touch_pages || size < kPartlyTouchedFrom)) bytes[size - 1] = 1;
}

inline void Calls::keep(const Operation& operation, void* block) {
  if (!block && operation.size) __atomic_fetch_add(&failed_, 1, __ATOMIC_RELAXED);
  blocks_[operation.slot] = block;
  touch(static_cast<char*>(block), operation);
}

inline void Calls::keep_moved(const Operation& operation, void* block) {
  if (block || !operation.size) return keep(operation, block);
  __atomic_fetch_add(&failed_, 1, __ATOMIC_RELAXED);  // refused: the old block lives on
}

inline void Calls::make(const Operation& operation) {
  void*& block = blocks_[operation.slot];
  switch (operation.play) {
    case Play::malloc: return keep(operation, malloc(operation.size));
    case Play::calloc: return keep(operation, calloc(1, operation.size));
    case Play::aligned: return keep(operation, memalign(1ull << operation.log2_alignment, operation.size));
    case Play::realloc: return keep_moved(operation, realloc(block, operation.size));
    case Play::free:
      free(block);
      block = nullptr;
      return;
    case Play::mallopt: mallopt(static_cast<int>(operation.slot), static_cast<int>(operation.size)); return;
    default: return;
  }
}

}  // namespace heapspy::trial
