// Writes what the replayer plays (operation.h) while a trace's timeline passes.
//
// Which pages of a large block the program wrote is in the trace if that was recorded with HEAPSPY_TOUCH=on. Else it is known
// how many of its whole pages were in RAM where a snapshot was taken while the block lived; for the others of its size the mean
// of those is taken, or of those of the same power of two; where no snapshot saw any, each page is written. Pages of memory
// that was used before are in RAM whether this block wrote them or not: that estimate is from above.
//
// The time of snapshots that the program waited for is left out: without the recorder it would not have passed. A program of
// one thread takes them itself, and so does the one that exits; else a thread of the recorder's does, beside the program.
//
// Memory grows with live blocks and threads.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/trace/event.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/snapshot.h"
#include "analyzer/trial/operation.h"

namespace heapspy::trial {

enum class Touch { recorded, all, none };

// what() is one line.
struct OperationsNotWritten : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class OperationsWriter final : public trace::Observer {
 public:
  // Makes the file `path`, which must not be there. Throws OperationsNotWritten.
  OperationsWriter(const std::string& path, const trace::Clock&, Touch);
  ~OperationsWriter() override;
  OperationsWriter(const OperationsWriter&) = delete;
  OperationsWriter& operator=(const OperationsWriter&) = delete;

  int fd() const { return file_; }

  // After the timeline's end; nothing is told any more.
  void finish(trace::Tick end);
  std::uint64_t calls() const { return calls_; }  // operations that call the allocator
  bool touch_is_told() const { return touch_told_; }
  std::uint32_t threads() const { return threads_; }      // that are played, most at a time
  std::uint64_t duration_us() const { return last_us_; }  // of what is played; after finish()
  // What a heap can have had in RAM at most as the process ended; nullopt: no snapshot of that moment.
  std::optional<std::uint64_t> heap_at_exit_at_most() const { return heap_at_exit_; }
  std::uint64_t left_out() const { return left_out_; }  // calls whose block is not known

  void allocated(const trace::Block&, trace::Tick) override;
  void released(const trace::Block&, trace::ThreadId by, trace::Release, trace::Tick) override;
  void resized(const trace::Block& before, const trace::Block& after, trace::ThreadId by, trace::Tick) override;
  void vanished(const trace::Block&, trace::Tick) override;
  void lived_before(const trace::Block&, trace::ThreadId by, trace::Release, trace::Tick) override;
  void unknown_release(trace::ThreadId, std::uint64_t address, trace::Release, bool inherited, trace::Tick) override;
  void thread_ended(trace::ThreadId, trace::Tick) override;
  void snapshot_taken(const trace::Snapshot&) override;
  void marked(trace::ThreadId, std::string_view text, trace::Tick) override;
  void touched(trace::ThreadId, std::uint64_t address, std::uint64_t pages) override;

 private:
  struct Placed {
    std::uint32_t slot = 0;
    std::uint64_t size = 0;
    std::uint64_t operation = 0;  // that gave it its size
    std::uint32_t seen = 0;       // whole pages that a snapshot saw it touch, at most
  };
  struct Told {
    std::uint64_t address = 0, pages = 0;
  };
  struct Share {
    double resident = 0, pages = 0;
  };
  std::uint64_t played_us(trace::Tick);  // since the start, without what the recorder took; does not decrease
  Operation operation(Play, trace::ThreadId, trace::Tick);
  std::uint64_t call(Play, trace::ThreadId, trace::Tick, std::uint32_t slot, std::uint64_t size = 0,
                     unsigned log2_alignment = 0);
  std::uint64_t write(const Operation&);  // its place
  void flush();
  void set_pages(std::uint64_t place, std::uint32_t pages);
  void take_told(const Placed&, std::uint64_t address, trace::ThreadId by);
  void note_share(std::uint64_t size, std::uint64_t touched, std::uint64_t pages);
  std::uint32_t take_slot();
  void release(std::uint64_t address, trace::ThreadId, trace::Tick);
  std::uint32_t player_of(trace::ThreadId);
  std::uint32_t touched_pages(std::uint64_t size) const;
  void estimate_touches();

  const trace::Clock& clock_;
  Touch touch_;
  std::string path_;
  int file_;
  bool failed_ = false, touch_told_ = false;
  std::vector<Operation> buffer_;  // not in the file yet
  std::uint64_t written_ = 0, calls_ = 0, left_out_ = 0, last_us_ = 0;
  // The last snapshot that the program waited for, and for how long it did before.
  std::optional<std::uint64_t> heap_at_exit_;
  trace::Tick snapshot_begin_ = 0, snapshot_end_ = 0, stood_still_ = 0;
  std::unordered_map<std::uint64_t, Placed> live_;            // by address
  std::deque<std::uint32_t> free_slots_;                      // in the order in which they became so
  std::vector<std::uint64_t> latest_;                         // of each slot: place of its last operation
  std::unordered_map<std::uint32_t, std::uint32_t> players_;  // ThreadId → thread of the replay; 0 is the main thread
  std::vector<std::uint32_t> free_players_;
  std::uint32_t threads_ = 1;
  bool main_seen_ = false;
  std::unordered_map<std::uint32_t, Told> told_;  // ThreadId → of the block that it releases next
  std::unordered_map<std::uint64_t, Share> by_size_;
  std::array<Share, 64> by_power_{};
};

}  // namespace heapspy::trial
