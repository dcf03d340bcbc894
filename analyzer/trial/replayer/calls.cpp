#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "own_memory.h"

namespace heapspy::trial {

namespace {

constexpr uint64_t kPage = 4096;

// The first bytes, and so many whole pages from the first one on; where that is each of them, what follows the last, too.
void touch(char* block, const Operation& operation) {
  if (!block || !operation.size) return;
  const auto bytes = static_cast<volatile char*>(block);
  bytes[0] = 1;
  const uint64_t size = operation.size, first = (kPage - reinterpret_cast<uint64_t>(block) % kPage) % kPage;
  uint64_t pages = operation.touch_pages, at = first;
  for (; pages && at + kPage <= size; pages--, at += kPage) bytes[at] = 1;
  if (at + kPage > size && (operation.touch_pages || size < kPartlyTouchedFrom)) bytes[size - 1] = 1;
}

}  // namespace

void Calls::map(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0) fail(path);
  const auto bytes = static_cast<size_t>(status.st_size);
  void* at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) fail(path);
  close(fd);
  madvise(at, bytes, MADV_SEQUENTIAL);
  header_ = static_cast<const OperationsHeader*>(at);
  operations_ = reinterpret_cast<const Operation*>(header_ + 1);
  if (bytes < sizeof *header_ + sizeof(Operation) || memcmp(header_->magic, kOperationsMagic, sizeof kOperationsMagic) != 0 ||
      bytes != sizeof *header_ + header_->operations * sizeof(Operation))
    errno = EINVAL, fail(path);
  slots_ = static_cast<Slot*>(shared_memory((header_->slots + 1ull) * sizeof(Slot)));
}

void Calls::keep(const Operation& operation, void* block) {
  if (!block && operation.size) __atomic_fetch_add(&failed_, 1, __ATOMIC_RELAXED);
  slots_[operation.slot].block = block;
  touch(static_cast<char*>(block), operation);
}

void Calls::make(const Operation& operation) {
  void*& block = slots_[operation.slot].block;
  switch (operation.play) {
    case Play::malloc: return keep(operation, malloc(operation.size));
    case Play::calloc: return keep(operation, calloc(1, operation.size));
    case Play::aligned: return keep(operation, memalign(1ull << operation.log2_alignment, operation.size));
    case Play::realloc: {
      void* moved = realloc(block, operation.size);
      if (!moved && operation.size) {  // refused: the old block lives on
        __atomic_fetch_add(&failed_, 1, __ATOMIC_RELAXED);
        return;
      }
      return keep(operation, moved);
    }
    case Play::free:
      free(block);
      block = nullptr;
      return;
    default: return;
  }
}

}  // namespace heapspy::trial
