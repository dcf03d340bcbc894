// Bytes of a trace's payloads, for those that build them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heapspy/format/encode.h"
#include "heapspy/format/layout.h"

namespace heapspy::test {

template <typename T>
std::string_view as_bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline void pad(std::string& to, std::size_t alignment) { to.resize(format::align_up(to.size(), alignment)); }

inline void append_item(std::string& to, std::uint32_t tag, std::string_view content) {
  to += as_bytes(format::TaggedItem{tag, 0, content.size()});
  to += content;
  pad(to, 8);
}

inline void append_item(std::string& to, format::SnapshotTag tag, std::string_view content) {
  append_item(to, static_cast<std::uint32_t>(tag), content);
}

inline std::string_view view(const std::vector<std::uint64_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(std::uint64_t)};
}

}  // namespace heapspy::test
