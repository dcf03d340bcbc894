// The call stacks of this process, each frame below its callers once: cells in segments of the trace file (format/layout.h), so
// that a killed process has lost none, and an index of them in memory.
//
// Threads: intern() by any number at once, without a lock but where a segment or the index grows. Two threads that meet the
// same new frame may both write it. Lives in the recorder's wipe-on-fork memory, zero at first; there, and in a forked child,
// it knows nothing and keeps nothing.
#pragma once
#include <atomic>
#include <cstdint>

#include "heapspy/format/layout.h"
#include "lock.h"

namespace heapspy {

inline constexpr uint32_t cells_in(uint64_t segment_bytes) {
  return static_cast<uint32_t>((segment_bytes - sizeof(format::ChunkHeader) - sizeof(format::StacksHeader)) /
                               sizeof(format::StackCell));
}

class StackTable {
 public:
  // What the recording of a process begins with; its file has room for it from the start.
  static constexpr uint64_t kFirstSegmentBytes = 4 * format::kPageBytes;
  static constexpr uint32_t kMostCells = (1u << 22) - 1;

  void begin(char* first_segment);
  // The number of the cell that says this; 0: there is no room for it.
  uint32_t intern(uint32_t parent, uint64_t code, format::CellKind kind);
  // A module's cells (CellKind::module) in a row. False: no room.
  bool add_module(uint32_t number, const format::ModuleRecord& module, const char* path);
  void count_lost();
  // Every segment that there is.
  template <class Visit>
  void for_each_segment(Visit visit) const {
    const uint32_t count = segments_count_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) visit(segments_[i]);
  }
  uint64_t private_bytes() const { return more_index_bytes_; }

 private:
  // Numbers and hashes of written cells, open addressing; 0 is empty. A full index is replaced by a larger one; the old ones
  // stay, because somebody may be reading them.
  struct Index {
    uint32_t slots;  // a power of two
    std::atomic<uint32_t> used;
    std::atomic<uint32_t>& slot(uint64_t at) { return reinterpret_cast<std::atomic<uint32_t>*>(this + 1)[at & (slots - 1)]; }
  };
  static constexpr uint32_t kFirstSlots = 1024;
  static constexpr uint32_t kNumberBits = 22, kMostProbes = 128;
  // Cells of a segment: 16 KiB, 64 KiB, 256 KiB, and then 1 MiB each.
  static constexpr uint32_t kCells0 = cells_in(16 << 10), kCells1 = cells_in(64 << 10), kCells2 = cells_in(256 << 10),
                            kCells3 = cells_in(1 << 20);
  static constexpr uint32_t kMostSegments = 3 + kMostCells / kCells3;

  struct Place {
    uint32_t segment, index, cells;
  };
  static Place place_of(uint32_t number);
  format::StackCell* cell(uint32_t number) const;
  uint32_t claim(uint32_t cells);
  bool add_segment(uint32_t segment, uint32_t first);
  void grow(Index* seen);
  static bool put(Index& index, uint64_t hash, uint32_t number);

  std::atomic<Index*> index_;
  std::atomic<uint32_t> claimed_;
  std::atomic<bool> full_;
  std::atomic<uint32_t> segments_count_;
  char* segments_[kMostSegments];
  uint64_t more_index_bytes_;
  Lock lock_;
  alignas(64) Index first_;
  std::atomic<uint32_t> first_slots_[kFirstSlots];
};

}  // namespace heapspy
