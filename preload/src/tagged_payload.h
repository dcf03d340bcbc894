// Builds the payload of a `process` or `snapshot` chunk (format/layout.h: TaggedItem) in a mapping of its own. What does not
// fit is dropped; the payload stays well formed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "heapspy/format/layout.h"
#include "os.h"

namespace heapspy {

class TaggedPayload {
 public:
  // Begins in `first` (zeros; left as zeros), and moves to memory of its own, at most `room`, when that is full.
  TaggedPayload(char* first, size_t first_bytes, size_t room) : data_(first), room_(first_bytes), most_(room), first_(first) {}
  ~TaggedPayload() {
    if (data_ == first_) __builtin_memset(first_, 0, bytes_);
    memory_.release();
  }
  TaggedPayload(const TaggedPayload&) = delete;
  TaggedPayload& operator=(const TaggedPayload&) = delete;

  // Of the memory that is its own, and touched.
  uint64_t own_bytes() const { return data_ == first_ ? 0 : format::align_up(bytes_, 4096); }
  const char* data() const { return data_; }
  char* data() { return data_; }
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
  // The whole file if it has less than `usual` bytes; else its first `most`.
  void append_file(const char* path, size_t usual, size_t most) {
    for (const size_t room : {usual, most}) {
      char* to = extend(room);
      if (!to) return;
      const size_t got = os::read_file(path, to, room);
      if (got + 1 < room || room == most) return shrink(room - got);
      cut(bytes_ - room);
    }
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
    if (bytes_ + bytes + 8 > room_ && !move_to_more(bytes_ + bytes + 8)) return nullptr;  // 8: for pad()
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
  bool move_to_more(size_t need) {
    if (data_ != first_) {
      if (!memory_.ensure(need)) return false;
    } else {
      if (!memory_.reserve(most_) || !memory_.ensure(need)) return false;
      __builtin_memcpy(memory_.data(), first_, bytes_);
      __builtin_memset(first_, 0, bytes_);
      data_ = memory_.data();
    }
    room_ = memory_.usable_bytes();
    return true;
  }

  char* data_;
  size_t room_;
  size_t most_;
  char* first_;
  os::GrowingMemory memory_;
  uint64_t bytes_ = 0;
  uint64_t item_ = 0;
};

}  // namespace heapspy
