// The main thread tells each thread which operations of a window are its own (window_plan.h) and waits until all are played;
// while they play it plans the next window.
#include "own_memory.h"
#include "players.h"
#include "session.h"
#include "window_plan.h"

namespace heapspy::trial {

namespace {

enum : uint32_t { kWaits = 0, kPlays = 1, kEnds = 2 };

Session* session = nullptr;
Players players;
const Window* playing = nullptr;
uint32_t remaining = 0;  // threads that have not played their part

void play_part(uint32_t id) {
  const Window::Part part = playing->parts[id];
  for (uint32_t i = part.from; i < part.to; i++) session->calls.make(session->calls[playing->base + playing->order[i]]);
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

// What passes with the window's time, before it is played. What it may add to the heap.
uint64_t pass_window(const Window& window) {
  const Calls& calls = session->calls;
  session->pass_time(calls[window.first].time_us);
  session->heap.operation = window.first;
  uint64_t growth = 0;
  for (uint32_t i = 0; i < window.operations; i++) {
    growth += Session::growth(calls[window.first + i]);
    if (calls[window.first + i].play == Play::measure) session->heap.add_point(calls[window.first + i].time_us);
  }
  session->heap.expect(growth);
  return growth;
}

}  // namespace

void play_in_windows(Session& of) {
  session = &of;
  of.at_once = true;
  const uint32_t threads = of.calls.header().threads;
  players.begin(threads, wait_and_play);
  WindowPlan plan;
  plan.begin(&of.calls[0], threads);
  for (const Window* window = &plan.next();;) {
    const uint64_t growth = pass_window(*window);
    bool main_plays = false;
    for (uint32_t i = 0; i < window->threads; i++) {
      const uint32_t id = window->who[i];
      main_plays |= id == 0;
      if (!players[id].started) players.start(id);
    }
    playing = window;
    __atomic_store_n(&remaining, window->threads - main_plays, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < window->threads; i++)
      if (window->who[i]) start_part(window->who[i]);
    const Window* next = window->is_last ? nullptr : &plan.next();
    if (main_plays) play_part(0);
    for (uint32_t left; (left = __atomic_load_n(&remaining, __ATOMIC_ACQUIRE)) != 0;) wait_while(&remaining, left);
    for (uint32_t i = 0; i < window->endings; i++)
      if (window->ended[i]) end(window->ended[i]);
    session->heap.grew(growth);
    if (!next) break;
    window = next;
  }
  for (uint32_t id = 1; id < threads; id++)
    if (players[id].started) end(id);
  of.pass_time(of.calls.duration_us());
}

}  // namespace heapspy::trial
