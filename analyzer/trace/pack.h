// Rewrites a finished trace with its words packed: what `heapspy pack` does, and `heapspy record` at its end.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

namespace heapspy::trace {

// The trace is not rewritten, and is as it was; what() is one line: what, where, what to do.
struct NotPacked : std::runtime_error {
  enum class Why {
    running,     // somebody writes it still
    damaged,     // its damage would not show in what is written
    unwritable,  // no room, no permission
  };
  NotPacked(Why reason, const std::string& line) : std::runtime_error(line), why(reason) {}
  Why why;
};

struct PackSettings {
  int zstd_level = 3;
  // Chunks that are packed already and hold at least so many words are copied as they are.
  std::uint64_t keep_from_words = ~0ull;
  bool to_disk = true;  // wait until the new file is on the disk before it takes the name
};

struct Packed {
  std::uint64_t bytes_before = 0;  // on the disk
  std::uint64_t bytes_after = 0;
  std::uint64_t events = 0;  // calls, as the timeline counts them
};

// Reads the trace `from` and writes `to` (may be the same path) under another name beside it, which is given its own only when
// everything is there and reads the same: threads, words, snapshots, losses and damage. Memory does not grow with the trace,
// but by 40 bytes a chunk. Throws NotPacked, or Unreadable (reader.h).
Packed pack_trace(const std::string& from, const std::string& to, const PackSettings& settings = {});

// True while a process has the file open or mapped for writing; false also where the file system cannot tell.
bool is_being_written(const std::string& path);

}  // namespace heapspy::trace
