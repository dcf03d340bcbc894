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
// Words of an events chunk that is 64 KiB with its header and is written at a multiple of that: one folio of the page cache.
// Costs 0.36 ns a byte, against 0.46 for 56 KiB and 0.49 for 32 KiB at multiples of 4 KiB (ext4, Linux 6.18).
inline constexpr uint64_t kFullChunkBytes = 16 * format::kPageBytes;
inline constexpr uint64_t kAppendWords = (kFullChunkBytes - sizeof(format::ChunkHeader)) / 8;
static_assert(kAppendWords * 8 % 32 == 0);

// Begins a chunk of `bytes` in mapped zeros. It is never sealed: its payload is written in place.
void begin_mapped_chunk(char* at, format::ChunkKind kind, uint64_t bytes);

class TraceFile {
 public:
  struct Part {
    const void* data;
    uint64_t bytes;  // a multiple of 8; of 32 where another part follows
  };

  // Where its path is to be written, before create(); kMaxPath bytes.
  char* path_room() { return path_; }
  // Makes the file (O_EXCL, 0600) with room for a first segment of `first_segment_bytes`, and maps both. On failure says so in
  // one message and returns false.
  bool create(uint64_t first_segment_bytes);
  char* first_segment() { return reinterpret_cast<char*>(header_) + format::kPageBytes; }
  // The chunk that comes first: in what the header leaves of its page, which is mapped already; appended where it does not fit.
  bool begin_with(format::ChunkHeader& header, Part payload);
  // Appends a sealed chunk, whose payload is the two parts in a row. `header` needs kind, thread, tid, stream_at and
  // first_tick. False: nothing of it counts, and the file's header says why.
  bool append(format::ChunkHeader& header, Part payload, Part more = {nullptr, 0});
  // Adds room for a chunk that is written in place, and maps it; zeros, whole pages. nullptr: none could be had.
  // `at_once`: all of it will be written, so the kernel is given the pages in large pieces.
  char* add_segment(uint64_t bytes, bool at_once);

  // Of a file that gets nothing more: lets its first segment go.
  void close();

  format::FileHeader& header() { return *header_; }
  const char* path() const { return path_; }

 private:
  // What is mapped behind the first segment: a process that ends early appends its exit snapshot there without a system call.
  static constexpr uint64_t kTailBytes = 2 * format::kPageBytes;

  bool begin_in(int fd, uint64_t first_segment_bytes);
  long reopen();
  bool reserve(uint64_t bytes, uint64_t alignment, uint64_t* at);
  void keep_gap(uint64_t from, uint64_t to);
  bool take_of_gap(uint64_t bytes, uint64_t* at);
  void failed(format::Stop stop, long error);
  void write_mapped(uint64_t at, const format::ChunkHeader& header, Part payload, Part more);

  uint64_t mapped_bytes_ = 0;
  format::FileHeader* header_ = nullptr;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  // What a chunk's alignment left unused before it, for chunks that need none: bits 0 to 31 from, 32 to 63 to, both in
  // kChunkAlignment.
  std::atomic<uint64_t> gap_ = 0;
  char path_[kMaxPath] = {};  // last: of its page a start touches the beginning
};

}  // namespace heapspy
