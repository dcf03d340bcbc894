// Text in fixed buffers, where stdio and the heap are out of reach. A buffer that is full drops the rest and stays
// NUL-terminated.
#pragma once
#include <cstddef>
#include <cstdint>

namespace heapspy {

inline bool same(const char* a, const char* b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}
inline bool begins_with(const char* text, const char* start) {
  while (*start)
    if (*text++ != *start++) return false;
  return true;
}
inline size_t length_of(const char* text) {
  size_t n = 0;
  while (text[n]) n++;
  return n;
}

class Text {
 public:
  Text(char* buffer, size_t room) : at_(buffer), end_(buffer + room - 1), start_(buffer) { *at_ = 0; }
  Text& add(const char* text) {
    while (*text && at_ < end_) *at_++ = *text++;
    *at_ = 0;
    return *this;
  }
  Text& add(const char* text, size_t length) {
    while (length-- && at_ < end_) *at_++ = *text++;
    *at_ = 0;
    return *this;
  }
  // Decimal, at least `digits` wide, filled with zeros.
  Text& add_number(uint64_t value, int digits = 1) {
    char back[24];
    int n = 0;
    do back[n++] = static_cast<char>('0' + value % 10);
    while (value /= 10);
    while (n < digits) back[n++] = '0';
    while (n) add(&back[--n], 1);
    return *this;
  }
  bool full() const { return at_ == end_; }
  size_t length() const { return static_cast<size_t>(at_ - start_); }

 private:
  char* at_;
  char* end_;
  char* start_;
};

}  // namespace heapspy
