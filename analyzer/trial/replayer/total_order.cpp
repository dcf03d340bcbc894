// Where the machine lets it, the main thread makes every call itself: it takes the thread-local memory of the thread that made
// the call (the register that leads to it), and so has that thread's caches and arena. The thread itself sleeps from its start
// to its end. A switch costs nanoseconds. Elsewhere the threads hand the turn to each other.
#include "own_memory.h"
#include "players.h"
#include "session.h"

namespace heapspy::trial {

namespace {

enum : uint32_t { kWaits = 0, kPlays = 1, kEnds = 2 };

Session* session = nullptr;
Players players;
uint32_t main_turn = 0;

// Without borrowing: plays the run that begins at its place when it is told to, then wakes the main thread.
void wait_and_play(Player& player, uint32_t) {
  for (;;) {
    wait_while(&player.turn, kWaits);
    if (player.turn == kEnds) return;
    player.place = session->play_run(player.place);
    __atomic_store_n(&player.turn, kWaits, __ATOMIC_RELAXED);
    __atomic_store_n(&main_turn, 1, __ATOMIC_RELEASE);
    wake(&main_turn, 1);
  }
}

uint64_t play_as(uint32_t id, uint64_t at) {
  Player& player = players[id];
  if (id == 0) return session->play_run(at);
  if (Players::can_become()) {
    Players::become(player.tls);
    const uint64_t next = session->play_run(at);
    Players::become(players[0].tls);
    return next;
  }
  player.place = at;
  __atomic_store_n(&player.turn, kPlays, __ATOMIC_RELEASE);
  wake(&player.turn, 1);
  wait_while(&main_turn, 0);
  main_turn = 0;
  return player.place;
}

void end(uint32_t id) {
  Player& player = players[id];
  __atomic_store_n(&player.turn, kEnds, __ATOMIC_RELEASE);
  wake(&player.turn, 1);
  players.join(id);
  player.turn = kWaits;
}

}  // namespace

void play_in_total_order(Session& of) {
  session = &of;
  players.begin(of.calls.header().threads, wait_and_play);
  for (uint64_t at = 0;;) {
    const Operation& operation = of.calls[at];
    if (operation.play == Play::end) break;
    if (at == of.pause_at) {
      of.pause_at = ~0ull;
      Session::pause("1");
    }
    const uint32_t id = operation.thread;
    if (!players[id].started) players.start(id);
    at = play_as(id, at);
    if (at && of.calls[at - 1].play == Play::thread_end && id) end(id);
  }
  of.pass_time(of.calls.duration_us());
}

}  // namespace heapspy::trial
