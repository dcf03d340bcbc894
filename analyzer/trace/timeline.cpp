// The order of events over all threads.
//
// An event is known to lie in a window: after the stamp before it and before the next stamp of its thread. Within the
// window its time is estimated: spread evenly where the next stamp came because enough events had passed; right behind the
// stamp before, at the thread's usual pace, where the next one came because the thread had been off the CPU.
//
// The merge always runs the thread whose next event is estimated earliest. An event that its address does not admit
// (block_lives.h) waits, and its thread with it, until another thread's event makes it fit. If that takes longer than the
// estimates are usually wrong (merge_settings.h), the next events of all other threads are searched for the one that it waits
// for:
//   - found, and its own turn is near: wait for that;
//   - found: its thread runs ahead to it, out of turn;
//   - not found: wait until the window ends; then it is made to fit by a rule of block_lives.h.
// A clock at every event makes the windows a point: then the order is the clock's.
#include "analyzer/trace/timeline.h"

#include <algorithm>
#include <functional>

#include "analyzer/trace/block_lives.h"
#include "analyzer/trace/lanes.h"
#include "analyzer/trace/merge_settings.h"

namespace heapspy::trace {

namespace {

constexpr std::uint64_t kProgressEvents = 1 << 20;
constexpr std::size_t kLookAhead = 128;  // events of another thread that are searched
constexpr int kDeepest = 2000;           // threads that run ahead for each other

}  // namespace

struct Timeline::State {
  const Reader& reader;
  std::vector<Observer*> observers;
  BlockLives lives;
  Lanes lanes;
  Tick patience = 0;

  Tick now = 0;
  Tick forget_at = kEndless;  // mode ring: what lived before may have ended in a piece that was overwritten
  Tick next_settle = 0;
  TimelineCounts counts;
  std::uint64_t repairs_seen = 0;
  std::size_t next_snapshot = 0;
  Tick next_snapshot_tick = kEndless;
  std::function<bool(std::size_t)> chosen;

  std::uint64_t next_progress = kProgressEvents;

  State(const Reader& trace, std::vector<Observer*> watching, const InheritedBlocks* inherited)
      : reader(trace),
        observers(watching),
        lives(std::move(watching), merge_settings::lives(trace, inherited)),
        lanes(trace, merge_settings::cursor(trace)),
        patience(merge_settings::patience(trace)) {
    if (trace.snapshots()) next_snapshot_tick = trace.snapshot_tick(0);
    if (trace.ring() && !trace.ring()->whole) forget_at = trace.ring()->from;
  }

  void open_lane() {
    const LaneIndex index = lanes.open_next();
    if (const Lane* lane = lanes.at(index)) {
      prefetch(lane->cursor.batch());
      prefetch(lane->cursor.next_batch());
    }
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
    Tick passed = lanes.next_start();
    for (const LaneIndex index : lanes.open())
      if (!lanes[index].cursor.done()) passed = std::min(passed, lanes[index].cursor.low());
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
    caller.alone = lanes.open().size() == 1 && lanes.next_start() > caller.high;
    // Where pieces of a ring are missing, so may be whatever an event would wait for.
    caller.alone |= forget_at != kEndless && caller.low < forget_at;
    caller.moving = &lane.moving;
    caller.cursor = &lane.cursor;
    return caller;
  }

  // The event at hand of `lane`. False: it has to wait.
  bool step(LaneIndex index, bool force, bool not_this_block = false) {
    Lane& lane = lanes[index];
    const Event& event = lane.cursor.event();
    switch (event.act) {
      case Act::nothing:
      case Act::undecided: break;
      case Act::failed:
        for (Observer* observer : observers) observer->failed(lane.thread, static_cast<Origin>(event.detail), event.size, now);
        break;
      case Act::touched:
        for (Observer* observer : observers) observer->touched(lane.thread, event.address, event.size);
        break;
      case Act::thread_start:
      case Act::thread_name:
      case Act::java_thread:
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
    if (lane.cursor.done()) lanes.is_over(index);
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
    const bool of_another = event.act == Act::thread_name || event.act == Act::java_thread;
    const ThreadId named = of_another ? lanes.thread_of(lane, tid) : lane.thread;
    for (Observer* observer : observers) switch (event.act) {
        case Act::thread_start: observer->thread_started(lane.thread, tid, text, event.address, now); break;
        case Act::thread_name:
          if (named != ThreadId::none) observer->thread_named(named, text, now);
          break;
        case Act::java_thread:
          if (named != ThreadId::none) observer->thread_is_java(named, text, (event.size & format::kDaemonBit) != 0);
          break;
        case Act::thread_end: observer->thread_ended(lane.thread, now); break;
        default:
          if (event.detail == static_cast<std::uint8_t>(format::Kind::mark))
            observer->marked(lane.thread, text, now);
          else
            observer->recording_switched(lane.thread, event.detail == static_cast<std::uint8_t>(format::Kind::resumed), now);
      }
  }

  // ---- waiting ---------------------------------------------------------------------------------------------------
  void wait(LaneIndex index, std::uint64_t address, bool for_live) {
    Lane& lane = lanes[index];
    lane.waits = true;
    lane.waits_for = address;
    lane.waits_for_live = for_live;
    if (lane.waited_at != lane.cursor.place()) counts.reordered_events++;
    lane.waited_at = lane.cursor.place();
    lives.wait(address, {index, for_live, add(lane.cursor.estimate(), patience)});
    lanes.set_deadline(index, std::min(lane.cursor.high(), add(std::max(lane.cursor.estimate(), now), patience)));
  }

  void stop_waiting(LaneIndex index) {
    Lane& lane = lanes[index];
    lives.stop_waiting(lane.waits_for, index);
    lane.waits = false;
  }

  // Puts lanes whose wait is over back into the queue. True if there were any.
  bool wake() {
    std::vector<LaneIndex>& woken = lives.woken();
    if (woken.empty()) return false;
    for (const LaneIndex index : woken) {
      lanes[index].waits = false;
      lanes.queue(index);
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
    const Lane& lane = lanes[waiting];
    const Effect wanted = lane.waits_for_live ? Effect::begins : Effect::ends;
    Ahead best;
    for (const LaneIndex index : lanes.open()) {
      const ThreadCursor& cursor = lanes[index].cursor;
      if (index == waiting || cursor.done() || lanes[index].searching || cursor.low() > lane.cursor.high()) continue;
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
    Lane& lane = lanes[index];
    while (!lane.cursor.done() && lane.cursor.place() <= place) {
      if (lane.waits) {
        if (!resolve(index, depth + 1) || lane.waits) return false;
        continue;
      }
      step(index, false);
      wake();
    }
    lanes.queue(index);
    return true;
  }

  // Ends the wait of `index` if it can be ended now. False: it goes on, up to a later deadline.
  bool resolve(LaneIndex index, int depth) {
    Lane& lane = lanes[index];
    const std::uint64_t place = lane.cursor.place();
    const bool kept = lane.waits_for_live && is_kept(lane);
    if (!kept && lives.is_live(lane.waits_for) == lane.waits_for_live) {
      stop_waiting(index);
      step(index, true);
      wake();
      lanes.queue(index);
      return true;
    }
    lane.searching = true;
    const Ahead ahead = look_ahead(index);
    if (ahead.found) {
      if (depth == 0 && ahead.estimate <= lane.cursor.high() && ahead.estimate > now && !lanes[ahead.lane].waits) {
        lanes.set_deadline(index, ahead.estimate + 1);
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
      if (depth == 0) lanes.set_deadline(index, lane.cursor.high());
      return false;
    }
    stop_waiting(index);
    step(index, true, kept);
    wake();
    lanes.queue(index);
    return true;
  }

  // `lane` waits for a block to end, is overdue, and the one that lives there is soon freed by its own thread.
  bool is_kept(const Lane& lane) {
    const LiveSlot* slot = lives.slot(lane.waits_for);
    if (!slot || !slot->live || add(lane.cursor.estimate(), patience) >= now) return false;
    for (const LaneIndex index : lanes.open())
      if (const Lane& owner = lanes[index]; owner.thread == ThreadId{slot->thread} && owner.thread != lane.thread)
        return !owner.cursor.done() && owner.cursor.ends_soon(lane.waits_for, 0);
    return false;
  }

  // ---- the merge -------------------------------------------------------------------------------------------------
  void run(Tick until, const std::function<void(double)>& progress) {
    for (;;) {
      lanes.close();
      if (progress && counts.events >= next_progress) report(progress);
      const Lane* lane = lanes.first_ready();
      LaneIndex waiting = 0;
      const Lane* late = lanes.first_deadline(waiting);
      const Tick turn = lane ? lane->cursor.estimate() : kEndless;
      const Tick deadline = late ? late->deadline : kEndless;
      if (lanes.any_to_start() && lanes.next_start() <= std::min(turn, deadline)) {
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
      run_lane(std::min({deadline, lanes.next_start(), until}));
    }
  }

  // Runs the first lane of the queue until another one's turn, or `limit`, comes before its own.
  void run_lane(Tick limit) {
    const LaneIndex index = lanes.take_first_ready();
    Lane& lane = lanes[index];
    if (const Lane* next = lanes.first_ready()) limit = std::min(limit, next->cursor.estimate());
    std::uint64_t left = kProgressEvents;
    do {
      set_now(lane.cursor.estimate());
      if (!step(index, false) || wake() || lane.cursor.done() || !--left) break;
    } while (lane.cursor.estimate() <= limit || lane.cursor.estimate() <= now);
    lanes.queue(index);
  }

  void report(const std::function<void(double)>& progress) {
    progress(lanes.share_read());
    next_progress = counts.events + kProgressEvents;
  }
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
  s.lanes.close();
  if (s.lanes.finished()) s.lives.settle_all(s.now);
  if (progress && !until) progress(1.0);
  TimelineCounts counts = s.counts;
  counts.last_tick = s.now;
  return counts;
}

std::uint64_t Timeline::live_blocks() const {
  std::uint64_t blocks = state_->lives.live();
  for (const LaneIndex index : state_->lanes.open())
    for (const Block& block : state_->lanes[index].moving) blocks += block.known;
  return blocks;
}

void Timeline::for_each_live(const std::function<void(const Block&)>& visit) const {
  state_->lives.for_each(visit);
  for (const LaneIndex index : state_->lanes.open())
    for (const Block& block : state_->lanes[index].moving)
      if (block.known) visit(block);
}

std::optional<Block> Timeline::live_at(std::uint64_t address) const {
  if (std::optional<Block> block = state_->lives.block_at(address)) return block;
  for (const LaneIndex index : state_->lanes.open())  // on its way to another address
    for (const Block& block : state_->lanes[index].moving)
      if (block.known && block.address == address) return block;
  return std::nullopt;
}

std::optional<Block> Timeline::about_to_live_at(std::uint64_t address, Tick tick) const {
  for (const LaneIndex index : state_->lanes.open()) {
    const Lane& lane = state_->lanes[index];
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
