// Which call stack an allocation comes from when the stream does not say: the one that came after the last stack the last time.
// The writer says what is otherwise and notes it, and the reader does the same with what it is told (FORMAT.md, kinds 22, 23).
// Pure functions over 128 bytes.
#pragma once
#include <cstdint>

namespace heapspy::format {

class FollowedStacks {
 public:
  // Of a stack that nothing is noted of: itself.
  std::uint32_t after(std::uint32_t stack) const {
    const std::uint64_t entry = entries_[place(stack)];
    return entry >> 32 == stack ? static_cast<std::uint32_t>(entry) : stack;
  }
  void note(std::uint32_t stack, std::uint32_t next) {
    entries_[place(stack)] = static_cast<std::uint64_t>(stack) << 32 | next;
  }
  void forget() {
    for (std::uint64_t& entry : entries_) entry = 0;
  }

 private:
  static constexpr std::uint32_t kEntries = 16;
  static std::uint32_t place(std::uint32_t stack) { return stack * 0x9E3779B1u >> 28; }

  std::uint64_t entries_[kEntries] = {};  // a stack, and from bit 0 what followed it
};

}  // namespace heapspy::format
