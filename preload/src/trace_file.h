// The trace on disk: made once, appended to chunk by chunk, its first page and its staging segments mapped. Holds no
// descriptor between two calls: a JVM's child closes them all and daemons reuse the numbers, so each append opens the
// file by its absolute path and checks that it is still the same inode.
//
// Threads: append() and add_segment() may be called by several at once; create() by one. Nothing here allocates from the heap.
#pragma once
#include <atomic>
#include <cstdint>

#include "heapspy/format/layout.h"

namespace heapspy {

inline constexpr int kMaxPath = 4096;

class TraceFile {
 public:
  struct Segment {
    format::StagingHeader* staging = nullptr;  // followed by its SlotHeaders; nullptr: none could be had
    char* rings = nullptr;
  };

  // Makes the file (O_EXCL, 0600) with room for a first segment of one ring, and maps both. On failure says so in one
  // message and returns false.
  bool create(const char* path, uint32_t first_ring_bytes, Segment* first);
  // Appends a sealed chunk. `bytes` is a multiple of 8; `header` needs kind, thread, tid, stream_at and first_tick. False:
  // nothing of it counts, and the file's header says why.
  bool append(format::ChunkHeader& header, const void* payload, uint64_t bytes);
  // Adds and maps a staging segment of `slots` rings.
  Segment add_segment(uint32_t slots, uint32_t ring_bytes);

  format::FileHeader& header() { return *header_; }
  const char* path() const { return path_; }

 private:
  long reopen();
  bool reserve(uint64_t bytes, uint64_t alignment, uint64_t* at);
  void failed(format::Stop stop, long error);
  Segment map_segment(int fd, uint64_t at, uint32_t slots, uint32_t ring_bytes);

  format::FileHeader* header_ = nullptr;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  char path_[kMaxPath];
};

}  // namespace heapspy
