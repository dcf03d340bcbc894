// The words of a thread's event stream. FORMAT.md draws them; encode.h and decode.h are their two mirrored ends.
//
// A stream is a row of 64-bit words. A record is one or more words. Bit 63 of every word is the lap bit of its place in
// the staging ring (layout.h) and carries no meaning of its own: it is masked off before a word is read.
//
//   short record   | 63 lap | 62 .. 20 address / 16 | 19 .. 3 size | 2 .. 0 operation (1 .. 7) |
//   stamp          | 63 lap | 62 .. 8 tick                         | 7 .. 3 kind | 0           |
//   long record    | 63 lap | 62 .. 16 payload | 15 .. 8 words     | 7 .. 3 kind | 0           |  + words - 1 more
//
// `words` counts the first one, so a reader can skip a kind that it does not know. Text is carried 7 bytes a word.
#pragma once
#include <cstdint>

namespace heapspy::format {

inline constexpr std::uint64_t kLapBit = 1ull << 63;
inline constexpr int kAddressShift = 20, kSizeShift = 3, kKindShift = 3, kWordsShift = 8, kPayloadShift = 16, kTickShift = 8;
inline constexpr std::uint64_t kShortAddressLimit = 1ull << 47;  // and a multiple of 16
inline constexpr std::uint64_t kShortSizeLimit = 1ull << 17;

// Bits 0 to 2 of a first word.
enum class Operation : std::uint8_t {
  escape = 0,
  free = 1,           // recorded before the real free; the size field holds a Release
  malloc = 2,         // recorded after the real call, like every allocation
  calloc = 3,         // size: the product
  operator_new = 4,   // every operator new without alignment
  realloc_begin = 5,  // recorded before the real call; size field 0
  realloc_end = 6,    // the block lives at `address` with `size` bytes now
  realloc_new = 7,    // realloc(NULL, n)
};

// Bits 3 to 7 of a first word whose operation is escape.
enum class Kind : std::uint8_t {
  none = 0,             // never written: a zero word is no record
  stamp = 1,            // the next event came after this tick; written because events_per_stamp words had passed
  stamp_off_cpu = 2,    // … because the thread had been off the CPU since the last stamp
  allocation = 8,       // 3 words: payload = Origin | log2(alignment) << 8, address, size: whatever a short record cannot say
  release = 9,          // 2 words: payload = Release, address
  realloc_begin = 10,   // 2 words: address
  realloc_end = 11,     // 3 words: address, size
  failed = 12,          // 2 words: payload = Origin, size asked for (at most 2^63 - 1)
  realloc_failed = 13,  // 2 words: size asked for; the block of the realloc_begin lives on
  realloc_freed = 14,   // 1 word: realloc(p, 0) gave the block of the realloc_begin back
  thread_start = 15,    // 2 + text words: payload = tid; word 1: a stack address of the thread; text: its name
  thread_name = 16,     // 1 + text words: payload = tid of the thread that is named (not always the stream's own)
  thread_end = 17,      // 1 word: its destructors have begun; few events follow
  mark = 18,            // 1 + text words
  paused = 19,   // 1 word: the program stopped recording (heapspy_stop); what follows until `resumed` is not in the trace
  resumed = 20,  // 1 word
  padding = 21,  // the rest of a lap of the ring: says nothing
  stack = 22,  // 1 word: payload = number of a StackCell (layout.h). The next allocation or realloc_end of the stream came from
               // there, and so did those after it; nothing is known any more of what follows what (followed_stacks.h). 0, and
               // before the first: not known
  next_stack = 23,  // 1 word: likewise, but from now on this stack follows the one of the allocation before
  touched = 24,  // 2 words: payload = how many whole pages of the block at `address` the program touched; the block's release
                 // or realloc_begin follows in the stream (HEAPSPY_TOUCH)
  java_thread =
      25,  // 1 + text words: payload = tid | kDaemonBit of a thread of Java's; text: its group's name, none: not known
};
inline constexpr std::uint64_t kDaemonBit = 1ull << 32;

// Which entry point gave the block.
enum class Origin : std::uint8_t {
  malloc = 1,
  calloc = 2,
  realloc = 3,  // realloc(NULL, n), reallocarray(NULL, …)
  aligned = 4,  // memalign, aligned_alloc, posix_memalign, valloc, pvalloc
  operator_new = 5,
  operator_new_aligned = 6,
};

// Which entry point took it back.
enum class Release : std::uint8_t {
  free = 0,             // free, cfree, free_sized, free_aligned_sized
  operator_delete = 1,  // every operator delete
};

inline constexpr std::uint32_t kTextBytesPerWord = 7;
inline constexpr std::uint32_t kMaxRecordWords = 32;  // longest record; text beyond it is cut

}  // namespace heapspy::format
