// Opens a trace of any state (complete, of a killed or still running process, damaged) and finds what is in it.
// Reads headers and chunk headers once; event words are read later, chunk by chunk, as the timeline needs them, so
// memory does not grow with the trace's events (40 bytes per 32 KiB chunk). Damage is listed, never fatal.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "analyzer/trace/event.h"
#include "analyzer/trace/packed_words.h"
#include "analyzer/trace/snapshot.h"
#include "heapspy/format/layout.h"

namespace heapspy::trace {

// Not a trace, newer than this program, or unreadable: what() is one line that says what, where, what to do.
struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Damage {
  std::uint64_t offset = 0;
  std::string reason;
};

// A line through the two clock pairs of the file. Total: never divides by zero.
class Clock {
 public:
  Clock() = default;
  explicit Clock(const format::FileHeader&);
  double seconds(Tick) const;  // from the start of the process
  Tick ticks(double seconds) const;

 private:
  double seconds_per_tick_ = 1e-9;
};

struct ProcessInfo {
  std::uint32_t pid = 0, ppid = 0;
  bool forked = false;
  std::string exe, host, working_folder, allocator, allocator_version, glibc_version;
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;
  std::uint64_t start_realtime_ns = 0;
  std::optional<int> cpus;
  std::string front;  // what answers malloc before the recorder
  format::End end = format::End::running;
  bool running = false;  // the process lives and still maps this file
  std::optional<Tick> end_tick;
};

// A named moment. `thread`: none where it came from outside (`heapspy mark`).
struct Mark {
  enum class Kind : std::uint8_t { named, paused, resumed };  // heapspy_stop() and heapspy_start() leave one too, without text
  Tick tick = 0;
  ThreadId thread = ThreadId::none;
  std::string text;
  Kind kind = Kind::named;
};

// One thread's words, in its order. Pieces come from chunks and, last, from the staging ring; `gap` before a piece
// means that words in between are lost.
struct StreamPiece {
  std::uint64_t stream_at = 0;  // in words
  std::uint64_t words = 0;
  Tick first_tick = 0;
  std::uint64_t file_offset = 0;  // of the first word; in_ring: index into Reader's copy of the rings; packed: of the payload
  bool in_ring = false;
  bool gap = false;
  bool packed = false;
  std::uint32_t skip = 0;  // packed: words of the payload before the piece's first
};

// What the thread counted itself: `records` of its words before `place` began a record.
struct StreamCount {
  std::uint64_t place = 0;
  std::uint64_t records = 0;
};

struct ThreadStream {
  ThreadId id = ThreadId::none;
  std::uint32_t tid = 0;
  std::vector<StreamPiece> pieces;  // by stream_at, no overlaps
  std::vector<StreamCount> counts;  // by place
  std::uint64_t lost_events = 0;    // counted by the recorder
};

// Mode ring: what its rings hold, or those of the copy.
struct RingSpan {
  Tick oldest = 0;     // the first event of any thread that is there
  Tick from = 0;       // since then everything is
  bool whole = false;  // nothing was overwritten: the trace is like one of mode full
};

class StackTable;

class Reader {
 public:
  // Throws Unreadable.
  explicit Reader(const std::string& path);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const std::string& path() const;
  const format::FileHeader& header() const;
  std::uint64_t size_bytes() const;  // of the file as it is on disk (allocated or not)
  const Clock& clock() const;
  const ProcessInfo& process() const;
  const std::vector<ThreadStream>& threads() const;             // by id
  const std::vector<Damage>& damage() const;                    // grows while words are read
  std::uint64_t lost_events() const;                            // likewise
  const std::optional<RingSpan>& ring() const;                  // only in mode ring
  const std::vector<format::ThreadCounters>& counters() const;  // of modes count and full, by thread
  // Snapshots in the order of time, decoded on demand (they can be large).
  std::size_t snapshots() const;
  Tick snapshot_tick(std::size_t) const;
  format::SnapshotReason snapshot_reason(std::size_t) const;
  std::uint64_t snapshot_rss(std::size_t) const;
  Snapshot snapshot(std::size_t) const;
  // Read when first asked for, which is after all events that this reader knows: their stacks are in it. Sites are interned as
  // they are met, so it is no constant.
  StackTable& stacks() const;
  // Those from outside, in the order of the file; the timeline tells of those in the threads' streams.
  const std::vector<Mark>& outside_marks() const;
  // Copies a piece's words (lap bits masked off) into `to`. A checksum that does not hold is noted as damage; what can
  // be read is still given.
  // Packed words that are damaged cannot be read at all: `to` is empty then.
  // `sightings`, if given: of the piece's words, by place, where the trace has any.
  void read(const StreamPiece&, std::vector<std::uint64_t>& to, std::vector<Sighting>* sightings = nullptr) const;
  // Whoever decodes a stream found this many records before `place` since the count before it, where the thread had counted
  // `counted`. What is missing is lost; noted once, however often the stream is decoded.
  void note_count(const ThreadStream&, std::uint64_t place, std::uint64_t found, std::uint64_t counted) const;
  // Whoever has decoded all of them knows that so many more events are lost than lost_events() says.
  void note_loss(std::uint64_t more, std::string reason) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heapspy::trace
