// The threads of a trace as the merge holds them: opened when it reaches their first tick, closed when their streams end (what
// counts is how many live at once), and two queues by time, of those that can run and of those that wait.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "analyzer/trace/address_notes.h"
#include "analyzer/trace/thread_cursor.h"

namespace heapspy::trace {

struct Lane {
  Lane(const Reader& reader, const ThreadStream& stream, const CursorSettings& settings)
      : cursor(reader, stream, settings), thread(stream.id), tid(stream.tid) {}

  ThreadCursor cursor;
  ThreadId thread;
  std::uint32_t tid;
  std::vector<Block> moving;  // taken out by reallocs that have not ended
  bool queued = false;        // stands in the queue of those that can run
  bool waits = false;
  bool searching = false;           // its wait is being ended
  std::uint64_t waits_for = 0;      // address
  bool waits_for_live = false;      // else: for the block there to end
  Tick deadline = 0;                // of the wait
  std::uint64_t waited_at = 0;      // place of the event that waited last
  std::uint32_t place_in_open = 0;  // index into Lanes::open()
};

class Lanes {
 public:
  Lanes(const Reader&, const CursorSettings&);

  Lane& operator[](LaneIndex index) { return *lanes_[index]; }
  const Lane& operator[](LaneIndex index) const { return *lanes_[index]; }
  const Lane* at(LaneIndex index) const { return lanes_[index].get(); }  // nullptr: not begun, or over
  const std::vector<LaneIndex>& open() const { return open_; }

  bool any_to_start() const { return next_start_ < starts_.size(); }
  Tick next_start() const { return start_tick_; }  // kEndless: none
  // Opens the one that starts next. It may turn out to be empty: then it is over at once.
  LaneIndex open_next();
  // It has no more events; closed when close() comes, until when it may be referred to.
  void is_over(LaneIndex index) { over_.push_back(index); }
  void close();
  bool finished() const { return !any_to_start() && open_.empty(); }

  // Into the queue of those that can run, unless it stands there, waits, or is done.
  void queue(LaneIndex);
  // The first that can run, its turn up to date; nullptr: none. Taken out, it is queued again by the taker.
  Lane* first_ready();
  LaneIndex take_first_ready();  // after first_ready() found one
  void set_deadline(LaneIndex, Tick);
  // The waiting one whose deadline comes first, and its index.
  Lane* first_deadline(LaneIndex& index);

  // The thread that has `tid` now: threads may name each other.
  ThreadId thread_of(const Lane& lane, std::uint32_t tid) const;
  double share_read() const;  // of all words

 private:
  // Entries may be out of date; whoever takes one looks at the lane.
  struct Turn {
    Tick at = 0;
    LaneIndex lane = 0;
    bool operator>(const Turn& other) const { return at != other.at ? at > other.at : lane > other.lane; }
  };
  class TurnQueue {
   public:
    bool empty() const { return turns_.empty(); }
    const Turn& first() const { return turns_.front(); }
    void push(Turn turn);
    void pop();

   private:
    std::vector<Turn> turns_;
  };

  void find_next_start() { start_tick_ = any_to_start() ? start(starts_[next_start_]) : kEndless; }
  Tick start(LaneIndex lane) const { return reader_.threads()[lane].pieces.front().first_tick; }

  const Reader& reader_;
  CursorSettings settings_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // as reader.threads()
  std::vector<LaneIndex> starts_;             // by first tick
  std::size_t next_start_ = 0;
  Tick start_tick_ = kEndless;  // of starts_[next_start_]
  std::vector<LaneIndex> open_;
  std::vector<LaneIndex> over_;
  TurnQueue ready_, deadlines_;
  std::uint64_t total_words_ = 0, closed_words_ = 0;
};

}  // namespace heapspy::trace
