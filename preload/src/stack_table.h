// The call stacks of this process, each frame below its callers once: cells in segments of the trace file (format/layout.h), so
// that a killed process has lost none, and an index of them in memory.
//
// Threads: intern() by any number at once, without a lock but where a segment or the index grows. Two threads that meet the
// same new frame may both write it. Lives in the recorder's wipe-on-fork memory, zero at first; there, and in a forked child,
// it knows nothing and keeps nothing.
#pragma once
#include <atomic>
#include <cstdint>

#include "heapspy/format/java_place.h"
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
  // The number of the cell that says this; 0: there is no room for it. `id` stands for code and kind (unwind/rule_table.h), so
  // that the index alone knows an old frame; 0: nothing does.
  uint32_t intern(uint32_t parent, uint64_t code, format::CellKind kind, uint32_t id);
  // What the index knows a frame with an id by: bits 0 to 21 are for the cell's number, 22 to 43 the parent's, 44 to 63 the id.
  static constexpr uint32_t kNumberBits = 22;
  static uint64_t key_of(uint32_t parent, uint32_t id) {
    return static_cast<uint64_t>(id) << 44 | static_cast<uint64_t>(parent) << kNumberBits;
  }
  static uint32_t number_in(uint64_t slot) { return static_cast<uint32_t>(slot & ((1u << kNumberBits) - 1)); }
  // A module's cells (CellKind::module) in a row. False: no room.
  bool add_module(uint32_t number, const format::ModuleRecord& module, const char* path);
  // A method's (CellKind::method): its name in parts. False: no room.
  struct Text {
    const char* at;
    uint64_t bytes;
  };
  bool add_method(uint32_t number, const Text* parts, int count);
  // Room for a place's entries (java_place.h); it is published when they are written. nullptr: no room.
  format::PlaceEntry* place_for(uint32_t entries);
  static void publish_place(uint32_t number, uint32_t entries, format::PlaceEntry* written);
  void count_lost();
  // Every segment that there is.
  template <class Visit>
  void for_each_segment(Visit visit) const {
    const uint32_t count = segments_count_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) visit(segments_[i]);
  }
  uint64_t private_bytes() const { return more_index_bytes_; }

 private:
  // Written cells by what they say; 0 is empty. A frame stands in its parent's line, which four parents share that came one
  // after another: what is looked for together stands together (anywhere else it would be a cache miss each time). Where the
  // line is full it stands in one that a hash leads to, or the next. A full index is replaced by a larger one; the old ones
  // stay, because somebody may be reading them.
  static constexpr uint32_t kInLine = 8, kFirstLines = 128, kMostLines = 16;
  // In place of an id it has bit 63 and bits of the code where there is none: then the cell must be looked at.
  static constexpr uint64_t kWithoutId = 1ull << 63;
  struct Line {
    std::atomic<uint64_t> slot[kInLine];
  };
  struct Index {
    uint32_t lines;  // a power of two
    std::atomic<uint32_t> used;
    uint64_t reserved[7];
    // The line to look in after `tried` others.
    Line& line(uint64_t key, uint32_t tried) {
      const uint64_t parent = key >> kNumberBits & ((1u << kNumberBits) - 1);
      const uint64_t at = tried ? (key * 0x9E3779B97F4A7C15ull >> 40) + tried : parent / 4;
      return reinterpret_cast<Line*>(this + 1)[at & (lines - 1)];
    }
  };
  static_assert(sizeof(Index) == sizeof(Line));
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
  uint32_t add_cell(Index& index, uint64_t key, uint32_t parent, uint64_t code, format::CellKind kind);
  void grow(Index* seen);
  static bool put(Index& index, uint64_t value);

  std::atomic<Index*> index_;
  std::atomic<uint32_t> claimed_;
  std::atomic<bool> full_;
  std::atomic<uint32_t> segments_count_;
  char* segments_[kMostSegments];
  uint64_t more_index_bytes_;
  Lock lock_;
  alignas(64) Index first_;
  Line first_lines_[kFirstLines];
};

}  // namespace heapspy
