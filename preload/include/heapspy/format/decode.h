// Words (record.h) to records. Reads bytes that may be damaged: every function is total, none reads outside its input.
#pragma once
#include <cstddef>
#include <cstdint>

#include "heapspy/format/record.h"

namespace heapspy::format {

// One record, as its words say it. `words` 0: the input ends within this record.
struct Record {
  Operation operation = Operation::escape;  // escape: `kind` says what
  Kind kind = Kind::none;
  std::uint32_t words = 0;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t payload = 0;            // stamp: the tick; thread_start, thread_name: the tid; else as record.h says
  const std::uint64_t* text = nullptr;  // of the kinds that have one: first word of the text
  std::uint32_t text_words = 0;
};

inline bool is_stamp(std::uint64_t word) {
  const std::uint64_t low = word & 0xFF;
  return low == static_cast<std::uint64_t>(Kind::stamp) << kKindShift || low == static_cast<std::uint64_t>(Kind::stamp_off_cpu)
                                                                                    << kKindShift;
}

// How many words the record that starts with `first` has; 0: none starts so.
inline std::uint32_t record_words(std::uint64_t first) {
  if (first & 7) return 1;
  const auto kind = static_cast<Kind>(first >> kKindShift & 31);
  if (kind == Kind::none) return 0;
  if (static_cast<unsigned>(kind) < 8) return 1;
  return static_cast<std::uint32_t>(first >> kWordsShift & 0xFF);
}

// Reads the record at `from`, of which `available` words exist (at least one). The result has words 0 where no record
// starts, or where it is cut.
inline Record decode(const std::uint64_t* from, std::size_t available) {
  Record record;
  const std::uint64_t first = from[0] & ~kLapBit;
  record.operation = static_cast<Operation>(first & 7);
  if (record.operation != Operation::escape) {
    record.words = 1;
    record.size = first >> kSizeShift & (kShortSizeLimit - 1);
    record.address = first >> kAddressShift << 4;
    return record;
  }
  record.kind = static_cast<Kind>(first >> kKindShift & 31);
  const std::uint32_t words = record_words(first);
  if (words == 0 || words > available) return record;
  if (is_stamp(first)) {
    record.words = 1;
    record.payload = first >> kTickShift;
    return record;
  }
  record.payload = first >> kPayloadShift;
  auto number = [&](std::uint32_t at) { return at < words ? from[at] & ~kLapBit : 0; };
  auto text = [&](std::uint32_t at) {
    record.text = from + at;
    record.text_words = words > at ? words - at : 0;
  };
  std::uint32_t least = 1;
  switch (record.kind) {
    case Kind::allocation:
    case Kind::realloc_end:
      least = 3;
      record.address = number(1);
      record.size = number(2);
      break;
    case Kind::release:
    case Kind::touched:
    case Kind::realloc_begin:
      least = 2;
      record.address = number(1);
      break;
    case Kind::failed:
    case Kind::realloc_failed:
      least = 2;
      record.size = number(1);
      break;
    case Kind::thread_start:
      least = 2;
      record.address = number(1);
      text(2);
      break;
    case Kind::thread_name:
    case Kind::java_thread:
    case Kind::mark: text(1); break;
    default: break;
  }
  if (words >= least) record.words = words;
  return record;
}

// Writes the text of `record` into `to` (room for 7 bytes a word and a NUL); returns its length.
inline std::size_t decode_text(const Record& record, char* to, std::size_t room) {
  std::size_t length = 0;
  for (std::uint32_t word = 0; word < record.text_words; word++)
    for (std::uint32_t i = 0; i < kTextBytesPerWord; i++) {
      const char byte = static_cast<char>(record.text[word] >> (8 * i) & 0xFF);
      if (!byte || length + 1 >= room) goto done;
      to[length++] = byte;
    }
done:
  if (room) to[length] = 0;
  return length;
}

}  // namespace heapspy::format
