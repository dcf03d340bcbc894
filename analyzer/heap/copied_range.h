// A private copy of a range of a target's memory: of pages that hold something, which are found out before anything is read
// (reading a page that was never touched would map it). All other pages read as zeros, as they do for their owner.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "analyzer/heap/copy_room.h"
#include "analyzer/process/target.h"

namespace heapspy::heap {

class CopiedRange {
 public:
  CopiedRange() = default;
  // [start, end) is widened to whole pages.
  CopiedRange(const process::Target&, std::uint64_t start, std::uint64_t end, const std::shared_ptr<CopyRoom>& room = nullptr);

  std::uint64_t start() const { return start_; }
  std::uint64_t end() const { return end_; }
  bool contains(std::uint64_t address, std::uint64_t bytes = 8) const {
    return address >= start_ && address < end_ && bytes <= end_ - address;
  }
  // `address`: a multiple of 8 within the range.
  std::uint64_t word(std::uint64_t address) const {
    const std::uint64_t offset = address - start_;
    const std::uint32_t slot = slots_[offset >> page_shift_];
    if (slot == 0) return 0;
    std::uint64_t value;
    std::memcpy(&value, bytes_.get() + (static_cast<std::uint64_t>(slot - 1) << page_shift_) + (offset & (page_bytes() - 1)),
                sizeof value);
    return value;
  }
  std::vector<std::uint64_t> words() const;  // all of them

  std::uint64_t page_bytes() const { return std::uint64_t{1} << page_shift_; }
  std::size_t pages() const { return slots_.size(); }
  bool residency_known() const { return !states_.empty() || slots_.empty(); }
  process::PageState state(std::size_t page) const { return states_[page]; }  // only where residency is known
  std::uint64_t copied_bytes() const { return copied_; }
  std::uint64_t unreadable_pages() const { return unreadable_; }  // that should have been there

 private:
  void copy(const process::Target&, const std::shared_ptr<CopyRoom>&);

  std::uint64_t start_ = 0, end_ = 0, copied_ = 0, unreadable_ = 0;
  unsigned page_shift_ = 12;
  std::vector<process::PageState> states_;
  std::vector<std::uint32_t> slots_;  // page → 1 + its place in bytes_; 0: not copied
  std::shared_ptr<std::byte> bytes_;
};

}  // namespace heapspy::heap
