// The order of events over all threads.
//
// An event is known to lie in a window: after the stamp before it and before the next stamp of its thread. Within the
// window its time is estimated: spread evenly where the next stamp came because enough events had passed; right behind the
// stamp before, at the thread's usual pace, where the next one came because the thread had been off the CPU.
//
// The merge always runs the thread whose next event is estimated earliest. An event that its address does not admit
// (block_lives.h) waits, and its thread with it, until another thread's event makes it fit. If that takes longer than the
// estimates are usually wrong (kPatience), the next events of all other threads are searched for the one that it waits for:
//   - found, and its own turn is near: wait for that;
//   - found: its thread runs ahead to it, out of turn;
//   - not found: wait until the window ends; then it is made to fit by a rule of block_lives.h.
// A clock at every event makes the windows a point: then the order is the clock's.
//
// Threads are opened when the merge reaches their first tick and closed when their streams end: what counts is how many
// live at once.
#include "analyzer/trace/timeline.h"

#include <algorithm>
#include <functional>

#include "analyzer/trace/block_lives.h"
#include "analyzer/trace/thread_cursor.h"

namespace heapspy::trace {

namespace {

// How long an event waits before the other threads are searched: some times the median error of the estimates.
constexpr double kPatienceSeconds = 19e-6;
// Between two events of a thread before anything is known about it.
constexpr double kUsualStepSeconds = 115e-9;
// Where interruptions are stamped, the last events of a stream came within this of its last stamp.
constexpr double kLastWindowSeconds = 0.1;
// What two CPUs' clocks may differ by, generously.
constexpr double kClockSkewSeconds = 1e-6;
// How far beyond the latest time that is known from elsewhere a stamp may lie: the recorder notes the time in the header
// every 10 ms of activity.
constexpr double kLatestMarginSeconds = 60;
// Stamps this far apart mean that interruptions are stamped (format/layout.h, events_per_stamp).
constexpr std::uint32_t kEventsPerStampWithNotice = 32;

constexpr std::uint64_t kProgressEvents = 1 << 20;
constexpr std::size_t kLookAhead = 128;  // events of another thread that are searched
constexpr int kDeepest = 2000;           // threads that run ahead for each other

Tick add(Tick left, Tick right) { return left > kEndless - right ? kEndless : left + right; }

// A thread in the merge.
struct Lane {
  Lane(const Reader& reader, const ThreadStream& stream, const CursorSettings& settings)
      : cursor(reader, stream, settings), thread(stream.id), tid(stream.tid) {}

  ThreadCursor cursor;
  ThreadId thread;
  std::uint32_t tid;
  std::vector<Block> moving;  // taken out by reallocs that have not ended
  bool queued = false;        // stands in the queue of those that can run
  bool waits = false;
  bool searching = false;           // resolve() is at work for it
  std::uint64_t waits_for = 0;      // address
  bool waits_for_live = false;      // else: for the block there to end
  Tick deadline = 0;                // of the wait
  std::uint64_t waited_at = 0;      // place of the event that waited last
  std::uint32_t place_in_open = 0;  // index into the list of open lanes
};

// A queue of lanes by time. Entries may be out of date; whoever takes one looks at the lane.
struct Turn {
  Tick at = 0;
  LaneIndex lane = 0;
  bool operator>(const Turn& other) const { return at != other.at ? at > other.at : lane > other.lane; }
};

class TurnQueue {
 public:
  bool empty() const { return turns_.empty(); }
  const Turn& first() const { return turns_.front(); }
  void push(Turn turn) {
    turns_.push_back(turn);
    std::push_heap(turns_.begin(), turns_.end(), std::greater<>());
  }
  void pop() {
    std::pop_heap(turns_.begin(), turns_.end(), std::greater<>());
    turns_.pop_back();
  }

 private:
  std::vector<Turn> turns_;
};

}  // namespace

struct Timeline::State {
  const Reader& reader;
  std::vector<Observer*> observers;
  BlockLives lives;
  CursorSettings cursor_settings;
  Tick patience = 0;

  std::vector<std::unique_ptr<Lane>> lanes;  // as reader.threads(); nullptr: not begun or over
  std::vector<LaneIndex> starts;             // by first tick
  std::size_t next_start = 0;
  Tick start_tick = kEndless;  // of starts[next_start]
  std::vector<LaneIndex> open;
  std::vector<LaneIndex> over;  // to be closed when nothing refers to them
  TurnQueue ready, deadlines;

  Tick now = 0;
  Tick forget_at = kEndless;  // mode ring: what lived before may have ended in a piece that was overwritten
  Tick next_settle = 0;
  TimelineCounts counts;
  std::uint64_t repairs_seen = 0;
  std::size_t next_snapshot = 0;
  Tick next_snapshot_tick = kEndless;
  std::function<bool(std::size_t)> chosen;

  std::uint64_t total_words = 0, closed_words = 0, next_progress = kProgressEvents;

  State(const Reader& trace, std::vector<Observer*> watching, const InheritedBlocks* inherited)
      : reader(trace), observers(watching), lives(std::move(watching), lives_settings(trace, inherited)) {
    const Clock& clock = trace.clock();
    patience = patience_of(trace);
    cursor_settings.clock = trace.header().clock;
    cursor_settings.usual_step = std::max<Tick>(clock.ticks(kUsualStepSeconds), 1);
    cursor_settings.exact_window = std::max<Tick>(clock.ticks(kClockSkewSeconds), 1);
    if (trace.header().events_per_stamp >= kEventsPerStampWithNotice)
      cursor_settings.last_window = clock.ticks(kLastWindowSeconds);
    cursor_settings.latest = add(latest_known(trace), clock.ticks(kLatestMarginSeconds));
    lanes.resize(trace.threads().size());
    for (LaneIndex i = 0; i < trace.threads().size(); i++) {
      const ThreadStream& stream = trace.threads()[i];
      for (const StreamPiece& piece : stream.pieces) total_words += piece.words;
      if (!stream.pieces.empty()) starts.push_back(i);
    }
    std::stable_sort(starts.begin(), starts.end(), [&](LaneIndex left, LaneIndex right) { return start(left) < start(right); });
    find_next_start();
    if (trace.snapshots()) next_snapshot_tick = trace.snapshot_tick(0);
    if (trace.ring() && !trace.ring()->whole) forget_at = trace.ring()->from;
  }

  static Tick patience_of(const Reader& trace) { return std::max<Tick>(trace.clock().ticks(kPatienceSeconds), 1); }

  // From the headers of file and chunks, not from words that may be damaged.
  static Tick latest_known(const Reader& trace) {
    Tick latest = std::max(trace.header().pairs[1].tick, trace.header().end_tick);
    for (const ThreadStream& stream : trace.threads())
      for (const StreamPiece& piece : stream.pieces)
        if (!piece.in_ring) latest = std::max(latest, piece.first_tick);
    if (trace.snapshots()) latest = std::max(latest, trace.snapshot_tick(trace.snapshots() - 1));
    return latest;
  }

  static BlockLives::Settings lives_settings(const Reader& trace, const InheritedBlocks* inherited) {
    BlockLives::Settings settings;
    settings.inherited = inherited;
    settings.one_thread = trace.threads().size() < 2;
    settings.forked = trace.header().forked != 0;
    settings.patience = patience_of(trace);
    settings.partial = trace.ring() && !trace.ring()->whole;
    settings.lossy = trace.lost_events() != 0 || !trace.damage().empty();
    for (const ThreadStream& stream : trace.threads())
      for (const StreamPiece& piece : stream.pieces) settings.lossy |= piece.gap;
    return settings;
  }

  void find_next_start() { start_tick = next_start < starts.size() ? start(starts[next_start]) : kEndless; }
  Tick start(LaneIndex lane) const { return reader.threads()[lane].pieces.front().first_tick; }
  Tick next_start_tick() const { return start_tick; }

  // ---- lanes -----------------------------------------------------------------------------------------------------
  void open_lane() {
    const LaneIndex index = starts[next_start++];
    find_next_start();
    auto lane = std::make_unique<Lane>(reader, reader.threads()[index], cursor_settings);
    if (!lane->cursor.open()) {
      closed_words += lane->cursor.words_read();
      return;
    }
    lane->place_in_open = static_cast<std::uint32_t>(open.size());
    open.push_back(index);
    lanes[index] = std::move(lane);
    prefetch(lanes[index]->cursor.batch());
    prefetch(lanes[index]->cursor.next_batch());
    queue(index);
  }

  void close_lanes() {
    for (const LaneIndex index : over) {
      Lane& lane = *lanes[index];
      closed_words += lane.cursor.words_read();
      open[lane.place_in_open] = open.back();
      lanes[open.back()]->place_in_open = lane.place_in_open;
      open.pop_back();
      lanes[index].reset();
    }
    over.clear();
  }

  void queue(LaneIndex index) {
    Lane& lane = *lanes[index];
    if (lane.queued || lane.waits || lane.cursor.done()) return;
    lane.queued = true;
    ready.push({lane.cursor.estimate(), index});
  }

  // The queue's first lane that can run, its turn up to date; nullptr: none.
  Lane* first_ready() {
    while (!ready.empty()) {
      const Turn turn = ready.first();
      Lane* lane = lanes[turn.lane].get();
      if (lane && !lane->waits && !lane->cursor.done() && lane->cursor.estimate() == turn.at) return lane;
      ready.pop();
      if (!lane) continue;
      lane->queued = false;
      queue(turn.lane);
    }
    return nullptr;
  }

  // The waiting lane whose deadline comes first; its index in `index`.
  Lane* first_deadline(LaneIndex& index) {
    while (!deadlines.empty()) {
      const Turn turn = deadlines.first();
      Lane* lane = lanes[turn.lane].get();
      index = turn.lane;
      if (lane && lane->waits && lane->deadline == turn.at) return lane;
      deadlines.pop();
    }
    return nullptr;
  }

  void prefetch(const Batch& batch) const {
    for (const Event& event : batch.events) lives.prefetch(event.address);
  }

  // ---- one event -------------------------------------------------------------------------------------------------
  void set_now(Tick tick) {
    if (tick <= now) return;
    while (next_snapshot_tick < tick) pass_snapshot();
    now = tick;
    if (now >= forget_at) {
      forget_at = kEndless;
      lives.forget_all(now);
    }
    if (lives.may_settle(now) && now >= next_settle) settle();
  }

  // Gives up what no event to come can explain: none lies before the windows at hand.
  void settle() {
    Tick passed = next_start_tick();
    for (const LaneIndex index : open)
      if (!lanes[index]->cursor.done()) passed = std::min(passed, lanes[index]->cursor.low());
    lives.settle(passed, now);
    next_settle = now + patience;
  }

  void pass_snapshot() {
    now = std::max(now, next_snapshot_tick);
    if (!chosen || chosen(next_snapshot)) {
      const Snapshot snapshot = reader.snapshot(next_snapshot);
      for (Observer* observer : observers) observer->snapshot_taken(snapshot);
    }
    next_snapshot++;
    next_snapshot_tick = next_snapshot < reader.snapshots() ? reader.snapshot_tick(next_snapshot) : kEndless;
  }

  Caller caller(Lane& lane) const {
    Caller caller;
    caller.thread = lane.thread;
    caller.low = lane.cursor.low();
    caller.high = std::min(lane.cursor.high(), kEndless - 1);  // before the end of all
    caller.alone = open.size() == 1 && next_start_tick() > caller.high;
    // Where pieces of a ring are missing, so may be whatever an event would wait for.
    caller.alone |= forget_at != kEndless && caller.low < forget_at;
    caller.moving = &lane.moving;
    caller.cursor = &lane.cursor;
    return caller;
  }

  // The event at hand of `lane`. False: it has to wait.
  bool step(LaneIndex index, bool force, bool not_this_block = false) {
    Lane& lane = *lanes[index];
    const Event& event = lane.cursor.event();
    switch (event.act) {
      case Act::nothing:
      case Act::undecided: break;
      case Act::failed:
        for (Observer* observer : observers) observer->failed(lane.thread, static_cast<Origin>(event.detail), event.size, now);
        break;
      case Act::thread_start:
      case Act::thread_name:
      case Act::thread_end:
      case Act::mark: tell_of_thread(lane, event); break;
      default: {
        Caller who = caller(lane);
        who.not_this_block = not_this_block;
        const BlockLives::Fit fit = lives.apply(event, who, now, force);
        if (fit != BlockLives::Fit::yes) {
          wait(index, event.address, fit == BlockLives::Fit::needs_live);
          return false;
        }
        if (lives.repaired() != repairs_seen) [[unlikely]]
          count_repair(lane);
      }
    }
    counts.events += event.counts;
    if (lane.cursor.advance()) prefetch(lane.cursor.next_batch());
    if (lane.cursor.done()) over.push_back(index);
    return true;
  }

  void count_repair(const Lane& lane) {
    repairs_seen = lives.repaired();
    counts.repaired_events++;
    if (lane.waited_at != lane.cursor.place()) counts.reordered_events++;  // else it was counted when it waited
  }

  void tell_of_thread(Lane& lane, const Event& event) {
    if (event.act == Act::mark && event.detail == static_cast<std::uint8_t>(format::Kind::paused)) lives.lose_sight();
    const std::string text = event.act == Act::thread_end ? std::string() : lane.cursor.take_text();
    const auto tid = static_cast<std::uint32_t>(event.size);
    const ThreadId named = event.act == Act::thread_name ? thread_of(lane, tid) : lane.thread;
    for (Observer* observer : observers) switch (event.act) {
        case Act::thread_start: observer->thread_started(lane.thread, tid, text, event.address, now); break;
        case Act::thread_name:
          if (named != ThreadId::none) observer->thread_named(named, text, now);
          break;
        case Act::thread_end: observer->thread_ended(lane.thread, now); break;
        default:
          if (event.detail == static_cast<std::uint8_t>(format::Kind::mark))
            observer->marked(lane.thread, text, now);
          else
            observer->recording_switched(lane.thread, event.detail == static_cast<std::uint8_t>(format::Kind::resumed), now);
      }
  }

  // The thread that has `tid` now: threads may name each other.
  ThreadId thread_of(const Lane& lane, std::uint32_t tid) const {
    if (tid == lane.tid) return lane.thread;
    ThreadId newest = ThreadId::none;
    for (const LaneIndex index : open)
      if (lanes[index]->tid == tid && lanes[index]->thread > newest) newest = lanes[index]->thread;
    for (std::size_t i = next_start; newest == ThreadId::none && i < starts.size(); i++)
      if (reader.threads()[starts[i]].tid == tid) newest = reader.threads()[starts[i]].id;
    return newest;
  }

  // ---- waiting ---------------------------------------------------------------------------------------------------
  void wait(LaneIndex index, std::uint64_t address, bool for_live) {
    Lane& lane = *lanes[index];
    lane.waits = true;
    lane.waits_for = address;
    lane.waits_for_live = for_live;
    if (lane.waited_at != lane.cursor.place()) counts.reordered_events++;
    lane.waited_at = lane.cursor.place();
    lives.wait(address, {index, for_live, add(lane.cursor.estimate(), patience)});
    set_deadline(index, std::min(lane.cursor.high(), add(std::max(lane.cursor.estimate(), now), patience)));
  }

  void set_deadline(LaneIndex index, Tick at) {
    lanes[index]->deadline = at;
    deadlines.push({at, index});
  }

  void stop_waiting(LaneIndex index) {
    Lane& lane = *lanes[index];
    lives.stop_waiting(lane.waits_for, index);
    lane.waits = false;
  }

  // Puts lanes whose wait is over back into the queue. True if there were any.
  bool wake() {
    std::vector<LaneIndex>& woken = lives.woken();
    if (woken.empty()) return false;
    for (const LaneIndex index : woken) {
      lanes[index]->waits = false;
      queue(index);
    }
    woken.clear();
    return true;
  }

  struct Ahead {
    LaneIndex lane = 0;
    std::uint64_t place = 0;
    Tick estimate = kEndless;
    bool found = false;
  };

  // Another lane's event that `lane` waits for: that lane's next on the address, within the window.
  Ahead look_ahead(LaneIndex waiting) const {
    const Lane& lane = *lanes[waiting];
    const Effect wanted = lane.waits_for_live ? Effect::begins : Effect::ends;
    Ahead best;
    for (const LaneIndex index : open) {
      const ThreadCursor& cursor = lanes[index]->cursor;
      if (index == waiting || cursor.done() || lanes[index]->searching || cursor.low() > lane.cursor.high()) continue;
      std::size_t left = kLookAhead;
      bool decided = false;
      auto search = [&](const Batch& batch, std::size_t from, Tick estimate, Tick step) {
        for (std::size_t i = from; i < batch.events.size() && left && !decided; i++, left--) {
          const Effect what = effect(batch.events[i], lane.waits_for);
          if (what == Effect::none || (what == Effect::keeps && !lane.waits_for_live)) continue;
          decided = true;
          const Tick at = add(estimate, (i - from) * step);
          if (what == wanted && (!best.found || at < best.estimate)) best = {index, batch.number << 32 | i, at, true};
        }
      };
      search(cursor.batch(), cursor.at(), cursor.estimate(), cursor.batch().step);
      if (!decided && !cursor.next_batch().events.empty() && cursor.next_batch().low <= lane.cursor.high())
        search(cursor.next_batch(), 0, cursor.next_batch().low, cursor.next_batch().step);
    }
    return best;
  }

  // Runs `index` up to and including the event at `place`. False: it waits for something that does not come.
  bool run_ahead(LaneIndex index, std::uint64_t place, int depth) {
    Lane& lane = *lanes[index];
    while (!lane.cursor.done() && lane.cursor.place() <= place) {
      if (lane.waits) {
        if (!resolve(index, depth + 1) || lane.waits) return false;
        continue;
      }
      step(index, false);
      wake();
    }
    queue(index);
    return true;
  }

  // Ends the wait of `index` if it can be ended now. False: it goes on, up to a later deadline.
  bool resolve(LaneIndex index, int depth) {
    Lane& lane = *lanes[index];
    const std::uint64_t place = lane.cursor.place();
    const bool kept = lane.waits_for_live && is_kept(lane);
    if (!kept && lives.is_live(lane.waits_for) == lane.waits_for_live) {
      stop_waiting(index);
      step(index, true);
      wake();
      queue(index);
      return true;
    }
    lane.searching = true;
    const Ahead ahead = look_ahead(index);
    if (ahead.found) {
      if (depth == 0 && ahead.estimate <= lane.cursor.high() && ahead.estimate > now && !lanes[ahead.lane]->waits) {
        set_deadline(index, ahead.estimate + 1);
        lane.searching = false;
        return true;
      }
      if (depth < kDeepest) run_ahead(ahead.lane, ahead.place, depth);
      if (!lane.waits || lane.cursor.done() || lane.cursor.place() != place) {
        lane.searching = false;
        return true;
      }
    }
    lane.searching = false;
    bool force = now >= lane.cursor.high() || depth > 0 || lane.deadline == kEndless;
    if (!force && !lane.waits_for_live) {
      // The block there is another thread's of about the same time, and this thread soon frees it: its life was short.
      const LiveSlot* slot = lives.slot(lane.waits_for);
      force = slot && ThreadId{slot->thread} != lane.thread && slot->latest_birth() >= lane.cursor.low() &&
              lane.cursor.ends_soon(lane.waits_for, 1);
    }
    if (!force) {
      if (depth == 0) set_deadline(index, lane.cursor.high());
      return false;
    }
    stop_waiting(index);
    step(index, true, kept);
    wake();
    queue(index);
    return true;
  }

  // `lane` waits for a block to end, is overdue, and the one that lives there is soon freed by its own thread.
  bool is_kept(const Lane& lane) {
    const LiveSlot* slot = lives.slot(lane.waits_for);
    if (!slot || !slot->live || add(lane.cursor.estimate(), patience) >= now) return false;
    for (const LaneIndex index : open)
      if (const Lane& owner = *lanes[index]; owner.thread == ThreadId{slot->thread} && owner.thread != lane.thread)
        return !owner.cursor.done() && owner.cursor.ends_soon(lane.waits_for, 0);
    return false;
  }

  // ---- the merge -------------------------------------------------------------------------------------------------
  void run(Tick until, const std::function<void(double)>& progress) {
    for (;;) {
      close_lanes();
      if (progress && counts.events >= next_progress) report(progress);
      Lane* lane = first_ready();
      LaneIndex waiting = 0;
      const Lane* late = first_deadline(waiting);
      const Tick turn = lane ? lane->cursor.estimate() : kEndless;
      const Tick deadline = late ? late->deadline : kEndless;
      if (next_start < starts.size() && next_start_tick() <= std::min(turn, deadline)) {
        open_lane();
        continue;
      }
      if (late && (!lane || deadline < turn)) {
        if (deadline != kEndless) {
          if (deadline > until) return;
          set_now(deadline);
        }
        resolve(waiting, 0);
        continue;
      }
      if (!lane || (turn > until && turn > now)) return;
      run_lane(std::min({deadline, next_start_tick(), until}));
    }
  }

  // Runs the first lane of the queue until another one's turn, or `limit`, comes before its own.
  void run_lane(Tick limit) {
    const LaneIndex index = ready.first().lane;
    Lane& lane = *lanes[index];
    ready.pop();
    lane.queued = false;
    if (first_ready()) limit = std::min(limit, ready.first().at);
    std::uint64_t left = kProgressEvents;
    do {
      set_now(lane.cursor.estimate());
      if (!step(index, false) || wake() || lane.cursor.done() || !--left) break;
    } while (lane.cursor.estimate() <= limit || lane.cursor.estimate() <= now);
    queue(index);
  }

  void report(const std::function<void(double)>& progress) {
    std::uint64_t words = closed_words;
    for (const LaneIndex index : open) words += lanes[index]->cursor.words_read();
    progress(total_words ? static_cast<double>(words) / static_cast<double>(total_words) : 1.0);
    next_progress = counts.events + kProgressEvents;
  }

  bool finished() const { return next_start == starts.size() && open.empty(); }
};

Timeline::Timeline(const Reader& reader, std::vector<Observer*> observers, const InheritedBlocks* inherited)
    : state_(std::make_unique<State>(reader, std::move(observers), inherited)) {}
Timeline::~Timeline() = default;

void Timeline::choose_snapshots(std::function<bool(std::size_t)> chosen) { state_->chosen = std::move(chosen); }

TimelineCounts Timeline::run(std::optional<Tick> until, const std::function<void(double)>& progress) {
  State& s = *state_;
  const Tick stop = until.value_or(kEndless);
  s.run(stop, progress);
  while (s.next_snapshot_tick < stop || (s.next_snapshot_tick == stop && until)) s.pass_snapshot();
  s.close_lanes();
  if (s.finished()) s.lives.settle_all(s.now);
  if (progress && !until) progress(1.0);
  TimelineCounts counts = s.counts;
  counts.last_tick = s.now;
  return counts;
}

std::uint64_t Timeline::live_blocks() const {
  std::uint64_t blocks = state_->lives.live();
  for (const LaneIndex index : state_->open)
    for (const Block& block : state_->lanes[index]->moving) blocks += block.known;
  return blocks;
}

void Timeline::for_each_live(const std::function<void(const Block&)>& visit) const {
  state_->lives.for_each(visit);
  for (const LaneIndex index : state_->open)
    for (const Block& block : state_->lanes[index]->moving)
      if (block.known) visit(block);
}

std::optional<Block> Timeline::live_at(std::uint64_t address) const {
  if (std::optional<Block> block = state_->lives.block_at(address)) return block;
  for (const LaneIndex index : state_->open)  // on its way to another address
    for (const Block& block : state_->lanes[index]->moving)
      if (block.known && block.address == address) return block;
  return std::nullopt;
}

std::optional<Block> Timeline::about_to_live_at(std::uint64_t address, Tick tick) const {
  for (const LaneIndex index : state_->open) {
    const Lane& lane = *state_->lanes[index];
    if (lane.cursor.done()) continue;
    const auto search = [&](const Batch& batch, std::size_t from) -> std::optional<Block> {
      if (batch.low > tick) return std::nullopt;
      for (std::size_t i = from; i < batch.events.size(); i++) {
        const Event& event = batch.events[i];
        if (event.address != address || effect(event, address) != Effect::begins) continue;
        Block block;
        block.address = address;
        block.size = event.size;
        block.born = tick;
        block.thread = lane.thread;
        block.site = event.site;
        block.origin = event.act == Act::allocate ? static_cast<Origin>(event.detail) : Origin::realloc;
        return block;
      }
      return std::nullopt;
    };
    if (auto block = search(lane.cursor.batch(), lane.cursor.at())) return block;
    if (auto block = search(lane.cursor.next_batch(), 0)) return block;
  }
  return std::nullopt;
}

}  // namespace heapspy::trace
