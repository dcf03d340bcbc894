// One thread's stream as a row of batches: the events between two stamps, with the window of time they fell into.
// Always holds the batch at hand and the next one, so that the merge can look ahead. Reads one piece at a time.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/trace/event.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/stacks_said.h"

namespace heapspy::trace {

// What an event does to the address it names. A realloc is a begin and an end; which of these a begin is shows only at its
// end, which the batches hold in all but freak cases.
enum class Act : std::uint8_t {
  nothing,       // of a realloc: the other record says it all
  allocate,      // a block begins at `address`
  release,       // the block at `address` ends
  resize,        // realloc begin, block stays at `address`: its size is `size` now
  move_out,      // realloc begin, block leaves `address` …
  move_in,       // … and, at the end, lives at `address` with `size`
  move_late,     // realloc end whose begin was passed before it was known what it is: from `other` to `address`
  undecided,     // realloc begin, end not seen yet: the block lives on
  realloc_free,  // realloc begin of a realloc(p, 0) that gave the block back
  failed,
  thread_start,  // address: stack; size: tid; text
  thread_name,   // size: tid of the named thread; text
  java_thread,   // size: tid of the thread, and kDaemonBit; text: its group
  thread_end,
  mark,     // text; detail: the Kind, mark or paused or resumed
  touched,  // size: whole pages of the block at `address`, whose release by this thread follows
};

struct Event {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t other = 0;
  Act act = Act::nothing;
  std::uint8_t detail = 0;     // Origin of allocate and failed, Release of release
  bool counts = false;         // is a call: begins are not, ends are
  SiteId site = SiteId::none;  // of what begins or changes a block
};

// What an event does to `address`.
enum class Effect : std::uint8_t { none, begins, ends, keeps };
Effect effect(const Event&, std::uint64_t address);

// Events between two stamps. `low` is the stamp before them, `high` the one after.
struct Batch {
  std::vector<Event> events;
  Tick low = 0;
  Tick high = 0;
  Tick step = 0;             // estimated time between two events
  std::uint64_t number = 0;  // of the batch in its stream
};

// How the streams of this trace tell time.
inline constexpr Tick kEndless = ~Tick{0};
inline Tick add(Tick left, Tick right) { return left > kEndless - right ? kEndless : left + right; }

struct CursorSettings {
  format::Clock clock = format::Clock::stamp;
  Tick usual_step = 100;   // between events, before anything is known
  Tick last_window = 0;    // length of the window of a stream's last batch; 0: endless
  Tick exact_window = 0;   // clock=event: how far two threads' clocks may disagree
  Tick latest = kEndless;  // stamps beyond this are damage
};

class ThreadCursor {
 public:
  // Reads nothing yet. `stream` must outlive it.
  ThreadCursor(const Reader&, const ThreadStream& stream, const CursorSettings&);

  // To the first event. False: there is none.
  bool open();

  bool done() const { return done_; }
  // The event at hand, its window and its estimated time. Only while not done.
  Event& event() { return current_.events[at_]; }
  const Event& event() const { return current_.events[at_]; }
  Tick low() const { return current_.low; }
  Tick high() const { return current_.high; }
  Tick estimate() const { return estimate_; }
  std::uint64_t place() const { return current_.number << 32 | at_; }  // grows from event to event

  // To the next event. True if a batch was read for that: next_batch() is new.
  bool advance() {
    if (++at_ < current_.events.size()) {
      estimate_ += current_.step;
      return false;
    }
    return next();
  }

  const Batch& batch() const { return current_; }
  std::size_t at() const { return at_; }
  const Batch& next_batch() const { return next_; }  // without events where the stream ends with batch()

  // The thread's next event on `address`, if it comes soon: among those after the one at hand (`skip` 1), or from it on (0).
  // nullptr: none does. The thread's own order is exact.
  const Event* next_on(std::uint64_t address, std::size_t skip) const;
  bool ends_soon(std::uint64_t address, std::size_t skip) const {
    const Event* next = next_on(address, skip);
    return next && effect(*next, address) == Effect::ends;
  }

  std::uint64_t words_read() const { return words_read_; }
  // The text of the event at hand, which must be one with text. Once for each such event.
  std::string take_text();

 private:
  struct OpenRealloc {
    std::uint64_t address = 0;
    std::uint64_t batch = 0;
    std::size_t at = 0;
  };
  enum class Closing { stamp, off_cpu, end };

  bool next();
  void fill(Batch&);
  bool refill();
  void find_stop();
  void compare_counts(std::uint64_t passed);
  void end_counts();
  void decode_short(Batch&, std::uint64_t word);
  void decode_long(Batch&, const std::uint64_t* from, std::size_t available, std::uint32_t& words);
  void begin_realloc(Batch&, std::uint64_t address);
  SiteId next_site();  // of the next allocation or end of a realloc; once for each
  void end_realloc(Batch&, std::uint64_t address, std::uint64_t size, Act how);
  Event* realloc_begin_of(const OpenRealloc&);
  void set_window(Batch&, Closing, Tick closing);

  const Reader& reader_;
  const ThreadStream& stream_;
  CursorSettings settings_;

  std::vector<std::uint64_t> words_;  // of the pieces at hand
  std::vector<std::uint64_t> carry_;  // a record's first words, whose rest is in the next piece
  std::size_t word_ = 0;
  std::size_t stop_ = 0;             // index into words_: their end, or where the next sighting or count belongs
  std::vector<Sighting> sightings_;  // of the pieces at hand …
  std::size_t next_sighting_ = 0;    // … the next of them
  std::uint64_t words_at_ = 0;       // place of words_[0] in the stream
  std::uint64_t records_ = 0;        // so far
  std::size_t next_count_ = 0;       // of stream_.counts …
  std::uint64_t agreed_ = 0;         // … up to the one before it the thread had counted this many more than were found
  bool gap_ = false;                 // since then words are missing that the recorder has counted as lost
  std::size_t next_piece_ = 0;
  std::uint64_t words_read_ = 0;

  Batch current_, next_;
  std::size_t at_ = 0;
  Tick estimate_ = 0;
  bool done_ = false;
  Batch* filling_ = nullptr;
  Tick stamp_ = 0;  // the latest
  Tick pace_ = 0;   // smoothed step
  std::uint64_t batches_ = 0;
  StacksSaid stacks_said_;  // where the thread's next allocations come from
  std::uint32_t cell_of_site_ = 0;
  SiteId site_ = SiteId::none;  // of that cell
  std::vector<OpenRealloc> reallocs_;
  std::deque<std::string> texts_;
};

}  // namespace heapspy::trace
