// The words of a thread's stream, made small and whole again: the payload of a `packed` chunk (format/layout.h, FORMAT.md).
//
// Words become columns: operations, sizes, addresses as differences, ticks as differences. An address costs nothing where it is
// the one that a thread cache would hand out next (the block of that size freed last), or one byte where the block was
// among the last 256 to be allocated. Each column is a zstd frame; each payload stands for itself, so damage stays local.
// Never linked into the recorder: its users are the reader, `heapspy pack` and the collector.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "analyzer/trace/event.h"
#include "heapspy/format/layout.h"

namespace heapspy::trace {

// What somebody saw who looked at a stream from outside: the words before place `at` were there before tick `seen`; those
// from it on came after tick `empty`.
struct Sighting {
  std::uint64_t at = 0;  // in words of the stream
  Tick seen = 0;
  Tick empty = 0;
};

// Owns its buffers (some 20 bytes a word of the longest payload). For one thread at a time.
class WordPacker {
 public:
  explicit WordPacker(int zstd_level);
  ~WordPacker();
  WordPacker(const WordPacker&) = delete;
  WordPacker& operator=(const WordPacker&) = delete;

  // The payload for `words` (at most format::kMostPackedWords, lap bits 0) that begin at place `stream_at`; valid until the
  // next call. `sightings` in the order of their places. `holes`: how many of the words were claimed and never written.
  std::string_view pack(std::span<const std::uint64_t> words, std::uint64_t stream_at, std::span<const Sighting> sightings = {},
                        std::uint32_t holes = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// As above. Reads bytes that may be damaged or made to harm: total, and never more memory than a longest payload needs.
class WordUnpacker {
 public:
  WordUnpacker();
  ~WordUnpacker();
  WordUnpacker(const WordUnpacker&) = delete;
  WordUnpacker& operator=(const WordUnpacker&) = delete;

  // False: this is no payload of `words` words; `to` and `sightings` are empty then. `sightings` may be null.
  bool unpack(std::string_view payload, std::uint64_t stream_at, std::vector<std::uint64_t>& to,
              std::vector<Sighting>* sightings);
  // Of the payload unpacked last: words that were claimed and never written.
  std::uint64_t holes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The header at the start of a payload, also one of the older kind; its length in bytes, 0 where it is none.
std::size_t read_packed_header(std::string_view payload, format::PackedHeader& to);

// No payload of `words` words is longer: for whoever must decide how much to read.
constexpr std::uint64_t longest_packed(std::uint64_t words) { return (1 << 20) + 64 * words; }

}  // namespace heapspy::trace
