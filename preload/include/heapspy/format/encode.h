// Events to words (record.h). Pure functions: they allocate nothing and may run inside a hook.
// The lap bit is the writer's business and 0 here.
#pragma once
#include <cstdint>

#include "heapspy/format/record.h"

namespace heapspy::format {

// True where one word says it all: addresses below 2^47 that are multiples of 16, sizes below 128 KiB.
inline bool fits_short(std::uint64_t address, std::uint64_t size) {
  const std::uint64_t rotated = address >> 4 | address << 60;  // one instruction; what the low four bits say is high now
  return (rotated >> 43 | size >> 17) == 0;
}

inline std::uint64_t encode_short(Operation operation, std::uint64_t address, std::uint64_t size) {
  return static_cast<std::uint64_t>(operation) | size << kSizeShift | address << (kAddressShift - 4);
}

inline std::uint64_t encode_stamp(Kind kind, std::uint64_t tick) {
  return static_cast<std::uint64_t>(kind) << kKindShift | (tick << kTickShift & ~kLapBit);
}

inline std::uint64_t encode_first(Kind kind, std::uint32_t words, std::uint64_t payload) {
  return static_cast<std::uint64_t>(kind) << kKindShift | static_cast<std::uint64_t>(words) << kWordsShift |
         (payload << kPayloadShift & ~kLapBit);
}

inline std::uint64_t encode_allocation_payload(Origin origin, unsigned log2_alignment) {
  return static_cast<std::uint64_t>(origin) | static_cast<std::uint64_t>(log2_alignment) << 8;
}

// A number as a later word of a long record: what does not fit 63 bits is cut to the largest that does.
inline std::uint64_t encode_number(std::uint64_t value) { return value < kLapBit ? value : kLapBit - 1; }

// Text, 7 bytes a word, into `to`; returns the words used, at most `room`. Stops at NUL.
inline std::uint32_t encode_text(const char* text, std::uint64_t* to, std::uint32_t room) {
  std::uint32_t words = 0;
  while (*text && words < room) {
    std::uint64_t word = 0;
    for (std::uint32_t i = 0; i < kTextBytesPerWord && *text; i++)
      word |= static_cast<std::uint64_t>(static_cast<unsigned char>(*text++)) << (8 * i);
    to[words++] = word;
  }
  return words;
}

}  // namespace heapspy::format
