// The rows of tagged items that process and snapshot chunks are made of (format/layout.h). Bytes may be damaged: every
// length is held against what is there.
#pragma once
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "heapspy/format/layout.h"

namespace heapspy::trace {

// A run of bytes that is read from the front.
class ByteRow {
 public:
  explicit ByteRow(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  std::optional<T> next() {
    if (rest_.size() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  // The next `bytes`, or what is left of them; then skips the zeros up to a multiple of 8.
  std::string_view take(std::uint64_t bytes) {
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(taken.size());
    const std::uint64_t padding = (8 - taken.size() % 8) % 8;
    rest_.remove_prefix(padding < rest_.size() ? padding : rest_.size());
    return taken;
  }

 private:
  std::string_view rest_;
};

// Calls `visit(tag, content)` for each item, the last one perhaps cut.
template <typename Visit>
void for_each_item(std::string_view payload, Visit visit) {
  ByteRow row(payload);
  while (const auto item = row.next<format::TaggedItem>()) visit(item->tag, row.take(item->bytes));
}

}  // namespace heapspy::trace
