// Counts the records of a stream, whatever the pieces its words come in.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "heapspy/format/decode.h"

namespace heapspy::trace {

class RecordWalk {
 public:
  std::uint64_t events = 0;  // calls
  std::uint64_t holes = 0;   // words that no record owns: claimed and never written

  void jump() { rest_ = 0; }  // over a gap
  void add(std::span<const std::uint64_t> words) {
    std::size_t i = std::min<std::size_t>(rest_, words.size());
    rest_ -= i;
    while (i < words.size()) {
      const std::uint64_t word = words[i];
      std::uint32_t length = 1;
      if (const auto operation = static_cast<format::Operation>(word & 7); operation != format::Operation::escape) {
        events += operation != format::Operation::realloc_begin;
      } else {
        events += is_call(static_cast<format::Kind>(word >> format::kKindShift & 31));
        holes += word == 0;
        length = std::max(format::record_words(word), 1u);
      }
      i += length;
    }
    rest_ = i - words.size();
  }

 private:
  static bool is_call(format::Kind kind) {
    switch (kind) {
      case format::Kind::allocation:
      case format::Kind::release:
      case format::Kind::realloc_end:
      case format::Kind::failed:
      case format::Kind::realloc_failed:
      case format::Kind::realloc_freed: return true;
      default: return false;
    }
  }
  std::size_t rest_ = 0;  // words of a record whose first ones have been seen
};

}  // namespace heapspy::trace
