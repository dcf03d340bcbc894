// A short record becomes one byte in `operations` and what its mode says:
//
//   bits 0 to 2  operation, as in the word          bit 7  allocations: bit 16 of the size; releases: bit 0 of the size field
//   bits 3 to 6  how the address is said (in units of 16, A):
//     0        as the short record before it
//     1        allocations: the block of its size class that was released last
//     2        releases: the n-th latest allocation; a byte in `recent` (n − 1)
//     3 to 8   by its difference from the short record before, zigzag, in 1 to 6 bytes
//     9 to 14  by its difference from the latest allocation of its size class, or from the latest release
//
// Any other record's byte is the lowest of its first word; stamps have the difference from the stamp before in `ticks`, other
// records their first word's upper bits and their further words in `others`, as differences from the same word of the
// latest record of their kind; stacks have a byte in `stacks`: most of them follow the stack that they followed before. A byte
// of 0 stands for any word that fits nowhere else: in `others` as it is.
//
// Both ends keep the same memory of what was allocated and released (Memory); it begins empty with each payload. Its tables are
// small and forget: a forgotten block is said by its difference.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "heapspy/format/decode.h"
#include "heapspy/format/encode.h"
#include "heapspy/format/layout.h"

namespace heapspy::trace::packed_columns {

using format::Column;
using format::kColumns;
using format::Kind;
using format::kMostPackedWords;
using format::Operation;
using format::PackedHeader;

inline constexpr unsigned kDifferenceBytes = 6;  // an address has 43 bits
inline constexpr unsigned kModeShift = 3, kExtraShift = 7;
enum : unsigned { kSame = 0, kReused = 1, kRecent = 2, kFromLast = 3, kFromAlike = kFromLast + kDifferenceBytes };
inline constexpr unsigned kModes = kFromAlike + kDifferenceBytes;
inline constexpr std::uint32_t kLongestVarint = 10;
inline constexpr std::size_t kShortColumn = 48;                  // bytes that are not worth a frame
inline constexpr std::uint64_t kLongestOthers = kLongestVarint;  // bytes a word, at most

constexpr bool is_release(Operation operation) { return operation == Operation::free || operation == Operation::realloc_begin; }

inline std::uint64_t zigzag(std::uint64_t difference) { return difference << 1 ^ (0 - (difference >> 63)); }
inline std::uint64_t unzigzag(std::uint64_t value) { return value >> 1 ^ (0 - (value & 1)); }

// What both ends remember of the short records so far.
struct Memory {
  static constexpr std::uint32_t kClasses = 256, kDepth = 8, kBlocks = 4096, kRecentBlocks = 256;

  std::uint64_t last = 0, released = 0;
  std::uint32_t allocations = 0;
  std::uint64_t allocated[kClasses];            // the latest of each class
  std::uint64_t free_blocks[kClasses][kDepth];  // stacks that wrap
  std::uint8_t free_top[kClasses];
  std::uint8_t class_of[kBlocks];       // by hash of address: the class of the block that was allocated there last
  std::uint64_t recent[kRecentBlocks];  // the latest allocations, by number

  void clear() { std::memset(static_cast<void*>(this), 0, sizeof *this); }

  // glibc's chunk sizes; any two sizes may share a class, which only costs bytes.
  static std::uint32_t size_class(std::uint64_t size) { return static_cast<std::uint32_t>((size + 23) >> 4) % kClasses; }
  static std::uint32_t hash(std::uint64_t address) { return static_cast<std::uint32_t>(address * 0x9E3779B97F4A7C15ull >> 52); }
  static_assert(kBlocks == 1 << 12);

  std::uint64_t& top(std::uint32_t c) { return free_blocks[c][free_top[c] % kDepth]; }
  void pop(std::uint32_t c) {
    top(c) = 0;
    free_top[c]--;
  }

  void note_allocation(std::uint64_t address, std::uint32_t c, unsigned mode) {
    std::uint8_t& known = class_of[hash(address)];
    if (mode == kReused)
      pop(c);
    else if (mode == kSame && top(known) == address)
      pop(known);
    known = static_cast<std::uint8_t>(c);
    allocated[c] = address;
    recent[allocations++ % kRecentBlocks] = address;
    last = address;
  }
  void note_release(std::uint64_t address) {
    const std::uint32_t c = class_of[hash(address)];
    free_top[c]++;
    top(c) = address;
    released = address;
    last = address;
  }
};

// What both ends remember of stacks: which followed which, and some of the latest.
struct StackMemory {
  static constexpr std::uint32_t kFollowed = 4096, kPlaces = 254;
  static inline constexpr unsigned kPredicted = 0, kNew = 255;  // else a place

  std::uint32_t last = 0, last_new = 0;
  std::uint32_t after[kFollowed];
  std::uint32_t places[1 + kPlaces];

  void clear() { std::memset(static_cast<void*>(this), 0, sizeof *this); }
  static std::uint64_t hash(std::uint32_t stack) { return stack * 0x9E3779B97F4A7C15ull >> 52; }
  static_assert(kFollowed == 1 << 12);
  static unsigned place_of(std::uint32_t stack) { return static_cast<unsigned>(1 + hash(stack) % kPlaces); }
  std::uint32_t& predicted() { return after[hash(last)]; }
  void note(std::uint32_t stack) {
    predicted() = stack;
    last = stack;
  }
};

// The lowest bytes of records that name a call stack.
inline constexpr std::uint64_t kStackHead = static_cast<std::uint64_t>(Kind::stack) << format::kKindShift;
inline constexpr std::uint64_t kNextStackHead = static_cast<std::uint64_t>(Kind::next_stack) << format::kKindShift;
inline bool names_stack(std::uint64_t head) { return head == kStackHead || head == kNextStackHead; }
// Whether one is as every recorder writes it.
inline bool is_plain_stack(std::uint64_t word) {
  return (word >> format::kWordsShift & 0xFF) == 1 && word >> format::kPayloadShift <= ~std::uint32_t{0};
}

// Differences within `others`.
struct Alike {
  static constexpr std::uint32_t kPlaces = 4;
  std::uint64_t words[32][kPlaces] = {};
  std::uint64_t& of(std::uint32_t kind, std::uint32_t place) { return words[kind % 32][std::min(place, kPlaces - 1)]; }
};

inline char* put_varint(char* to, std::uint64_t value) {
  while (value >= 0x80) {
    *to++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<char>(value);
  return to;
}

// Reads within [at, end); `at` null after the end was met.
struct VarintReader {
  const unsigned char* at = nullptr;
  const unsigned char* end = nullptr;
  bool good = true;
  std::uint64_t next() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at != end && shift < 64; shift += 7) {
      const unsigned char byte = *at++;
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    good = false;
    return 0;
  }
};

constexpr std::uint32_t column(Column c) { return static_cast<std::uint32_t>(c); }
// Else of numbers of variable length.
constexpr bool is_of_bytes(std::uint32_t c) { return c < column(Column::ticks) || c == column(Column::stacks); }
// How long a column of `words` words can be.
inline std::uint64_t longest(std::uint32_t c, std::uint64_t words, std::uint64_t sightings) {
  if (c == column(Column::sightings)) return 3 * kLongestVarint * sightings;
  if (c == column(Column::ticks)) return kLongestVarint * words;
  if (c == column(Column::others)) return kLongestOthers * words;
  return words;
}

}  // namespace heapspy::trace::packed_columns
