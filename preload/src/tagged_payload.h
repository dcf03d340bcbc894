// Builds the payload of a `process` or `snapshot` chunk (format/layout.h: TaggedItem) in a mapping of its own. What does not
// fit is dropped; the payload stays well formed.
#pragma once
#include <cstddef>
#include <cstdint>

#include "heapspy/format/layout.h"
#include "os.h"

namespace heapspy {

class TaggedPayload {
 public:
  // `room`: of address space; memory is taken as the payload grows.
  explicit TaggedPayload(size_t room) { memory_.reserve(room); }
  ~TaggedPayload() { memory_.release(); }
  TaggedPayload(const TaggedPayload&) = delete;
  TaggedPayload& operator=(const TaggedPayload&) = delete;

  bool ok() const { return memory_.data() != nullptr; }
  const char* data() const { return memory_.data(); }
  char* data() { return memory_.data(); }
  uint64_t bytes() const { return bytes_; }

  void begin(uint32_t tag) {
    item_ = bytes_;
    const format::TaggedItem head = {tag, 0, 0};
    append(&head, sizeof head);
  }
  void end() {
    if (bytes_ < item_ + sizeof(format::TaggedItem)) return;
    reinterpret_cast<format::TaggedItem*>(data() + item_)->bytes = bytes_ - item_ - sizeof(format::TaggedItem);
    pad();
  }
  void add(uint32_t tag, const void* from, size_t bytes) {
    begin(tag);
    append(from, bytes);
    end();
  }
  bool append(const void* from, size_t bytes) {
    char* to = extend(bytes);
    if (to) __builtin_memcpy(to, from, bytes);
    return to != nullptr;
  }
  void pad() { bytes_ = format::align_up(bytes_, 8); }  // the memory was zero
  void append_file(const char* path, size_t most) {
    if (char* to = extend(most)) shrink(most - os::read_file(path, to, most));
  }
  void append_number(uint64_t value) {
    char digits[24];
    size_t n = sizeof digits;
    do digits[--n] = static_cast<char>('0' + value % 10);
    while (value /= 10);
    append(digits + n, sizeof digits - n);
  }
  // The place where `bytes` more will be written by the caller itself; nullptr: no room.
  char* extend(size_t bytes) {
    if (!memory_.ensure(bytes_ + bytes + 8)) return nullptr;  // 8: for pad()
    char* at = data() + bytes_;
    bytes_ += bytes;
    return at;
  }

  // Takes everything from `bytes` on back.
  void cut(uint64_t bytes) {
    __builtin_memset(data() + bytes, 0, bytes_ - bytes);
    bytes_ = bytes;
  }
  // Gives the last bytes of an extend() back, which nobody has written.
  void shrink(size_t bytes) { bytes_ -= bytes; }

 private:
  os::GrowingMemory memory_;
  uint64_t bytes_ = 0;
  uint64_t item_ = 0;
};

}  // namespace heapspy
