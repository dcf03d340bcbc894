// Memory for copies, ready before the target is stopped: the page faults of fresh memory would be half of the pause.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace heapspy::heap {

class CopyRoom {
 public:
  // As much as there may be of it; with none, take() gives fresh memory.
  explicit CopyRoom(std::uint64_t bytes);
  ~CopyRoom();
  CopyRoom(const CopyRoom&) = delete;
  CopyRoom& operator=(const CopyRoom&) = delete;

  // Memory that lives as long as what is returned, and zeros. Throws std::bad_alloc.
  static std::shared_ptr<std::byte> take(const std::shared_ptr<CopyRoom>& room, std::uint64_t bytes);

 private:
  std::byte* begin_ = nullptr;
  std::uint64_t bytes_ = 0, used_ = 0;
};

}  // namespace heapspy::heap
