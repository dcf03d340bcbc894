// The main thread cuts the operations into windows, tells each thread which are its own, and waits until all are played; while
// they play it prepares the next window. Calls on one slot wait for each other by the slot's turn. The oldest operation of a
// window never waits, so none waits for ever.
#include <sched.h>

#include "own_memory.h"
#include "players.h"
#include "session.h"

namespace heapspy::trial {

namespace {

constexpr uint32_t kWindow = 4096;    // operations at most …
constexpr uint64_t kWindowUs = 1000;  // … and of recorded time
enum : uint32_t { kWaits = 0, kPlays = 1, kEnds = 2 };

struct Part {  // of one thread in a window: Window::order[from, to)
  uint32_t from, to;
};
struct Window {
  uint64_t first = 0, growth = 0;
  uint32_t operations = 0, threads = 0;
  bool is_last = false;
  uint32_t* who;    // threads that take part
  uint32_t* ended;  // of these, such that end in it
  uint32_t endings = 0;
  Part* parts;              // by thread
  uint16_t order[kWindow];  // operations of each thread in a row, as distance from `first`
};

Session* session = nullptr;
Players players;
Window* playing = nullptr;
uint32_t remaining = 0;  // threads that have not played their part

void play_part(uint32_t id) {
  const Part part = playing->parts[id];
  for (uint32_t i = part.from; i < part.to; i++) {
    const Operation& operation = session->calls[playing->first + playing->order[i]];
    if (operation.play >= Play::thread_end || operation.play == Play::end) continue;
    Slot& slot = session->calls.slot(operation);
    for (uint32_t spins = 0; static_cast<uint16_t>(__atomic_load_n(&slot.turn, __ATOMIC_ACQUIRE)) != operation.turn; spins++)
      if (spins > 100) sched_yield();
    session->calls.make(operation);
    __atomic_store_n(&slot.turn, slot.turn + 1, __ATOMIC_RELEASE);
  }
}

void wait_and_play(Player& player, uint32_t id) {
  uint64_t slept = 0, before = voluntary_switches();
  for (;;) {
    slept += wait_while(&player.turn, kWaits);
    const uint32_t turn = player.turn;
    player.turn = kWaits;
    if (turn == kEnds) break;
    play_part(id);
    if (__atomic_sub_fetch(&remaining, 1, __ATOMIC_ACQ_REL) == 0) wake(&remaining, 1);
  }
  const uint64_t all = voluntary_switches() - before;
  __atomic_fetch_add(&session->lock_waits, all > slept ? all - slept : 0, __ATOMIC_RELAXED);
}

// Which operations come next, thread by thread: counted, then laid out.
void prepare(Window& window, uint64_t first) {
  const Calls& calls = session->calls;
  window.first = first;
  window.threads = window.endings = 0;
  window.is_last = false;
  uint32_t count = 0;
  for (; count < kWindow; count++) {
    const Operation& operation = calls[first + count];
    if (operation.play == Play::end) {
      window.is_last = true;
      break;
    }
    if (count && operation.time_us > calls[first].time_us + kWindowUs) break;
    Part& part = window.parts[operation.thread];
    if (part.to == 0) {
      window.who[window.threads++] = operation.thread;
    } else if (window.endings && calls[first + part.from].play == Play::thread_end) {
      break;  // the place of a thread that has ended here is taken again
    }
    part.to++;
    part.from = count;  // for now: its latest
    if (operation.play == Play::thread_end) window.ended[window.endings++] = operation.thread;
  }
  window.operations = count;
  uint32_t at = 0;
  for (uint32_t i = 0; i < window.threads; i++) {
    Part& part = window.parts[window.who[i]];
    const uint32_t of_it = part.to;
    part.from = part.to = at;
    at += of_it;
  }
  for (uint32_t i = 0; i < count; i++) {
    Part& part = window.parts[calls[first + i].thread];
    window.order[part.to++] = static_cast<uint16_t>(i);
  }
}

void start_part(uint32_t id) {
  Player& player = players[id];
  __atomic_store_n(&player.turn, kPlays, __ATOMIC_RELEASE);
  wake(&player.turn, 1);
}

void end(uint32_t id) {
  Player& player = players[id];
  __atomic_store_n(&player.turn, kEnds, __ATOMIC_RELEASE);
  wake(&player.turn, 1);
  players.join(id);
  player.turn = kWaits;
}

// What passes with the window's time, before it is played.
void pass_window(Window& window) {
  const Calls& calls = session->calls;
  session->pass_time(calls[window.first].time_us);
  session->heap.operation = window.first;
  uint64_t growth = 0;
  for (uint32_t i = 0; i < window.operations; i++) {
    growth += Session::growth(calls[window.first + i]);
    if (calls[window.first + i].play == Play::measure) session->heap.add_point(calls[window.first + i].time_us);
  }
  session->heap.expect(growth);
  window.growth = growth;
}

void give_room(Window& window, uint32_t threads) {
  window.who = static_cast<uint32_t*>(shared_memory(threads * sizeof(uint32_t)));
  window.ended = static_cast<uint32_t*>(shared_memory((kWindow + 1) * sizeof(uint32_t)));
  window.parts = static_cast<Part*>(shared_memory(threads * sizeof(Part)));
}

void clear(Window& window) {
  for (uint32_t i = 0; i < window.threads; i++) window.parts[window.who[i]] = {0, 0};
}

}  // namespace

void play_in_windows(Session& of) {
  session = &of;
  of.at_once = true;
  const uint32_t threads = of.calls.header().threads;
  players.begin(threads, wait_and_play);
  auto* windows = static_cast<Window*>(shared_memory(2 * sizeof(Window)));
  for (int i = 0; i < 2; i++) give_room(windows[i], threads);
  prepare(windows[0], 0);
  for (uint32_t turn = 0;; turn ^= 1) {
    Window& window = windows[turn];
    pass_window(window);
    bool main_plays = false;
    for (uint32_t i = 0; i < window.threads; i++) {
      const uint32_t id = window.who[i];
      main_plays |= id == 0;
      if (!players[id].started) players.start(id);
    }
    playing = &window;
    __atomic_store_n(&remaining, window.threads - main_plays, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < window.threads; i++)
      if (window.who[i]) start_part(window.who[i]);
    const bool is_last = window.is_last;
    if (!is_last) prepare(windows[turn ^ 1], window.first + window.operations);
    if (main_plays) play_part(0);
    for (uint32_t left; (left = __atomic_load_n(&remaining, __ATOMIC_ACQUIRE)) != 0;) wait_while(&remaining, left);
    for (uint32_t i = 0; i < window.endings; i++)
      if (window.ended[i]) end(window.ended[i]);
    session->heap.grew(window.growth);
    clear(window);
    if (is_last) break;
  }
  for (uint32_t id = 1; id < threads; id++)
    if (players[id].started) end(id);
  of.pass_time(of.calls.duration_us());
}

}  // namespace heapspy::trial
