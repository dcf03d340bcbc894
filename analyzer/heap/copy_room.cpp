#include "analyzer/heap/copy_room.h"

#include <sys/mman.h>

#include <new>

namespace heapspy::heap {
namespace {

constexpr std::uint64_t kAlignment = 4096;
#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14
#endif

std::byte* fresh(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

}  // namespace

CopyRoom::CopyRoom(std::uint64_t bytes) {
  if (bytes == 0) return;
  begin_ = fresh(bytes);
  if (begin_ == nullptr) return;
  bytes_ = bytes;
  ::madvise(begin_, bytes_, MADV_POPULATE_WRITE);
}

CopyRoom::~CopyRoom() {
  if (begin_ != nullptr) ::munmap(begin_, bytes_);
}

std::shared_ptr<std::byte> CopyRoom::take(const std::shared_ptr<CopyRoom>& room, std::uint64_t bytes) {
  const std::uint64_t rounded = (bytes + kAlignment - 1) & ~(kAlignment - 1);
  if (room && room->bytes_ - room->used_ >= rounded) {
    std::byte* at = room->begin_ + room->used_;
    room->used_ += rounded;
    return {room, at};
  }
  std::byte* own = fresh(bytes);
  if (own == nullptr) throw std::bad_alloc();
  return {own, [bytes](std::byte* memory) { ::munmap(memory, bytes); }};
}

}  // namespace heapspy::heap
