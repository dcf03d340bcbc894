#include "players.h"

#include <errno.h>
#include <sys/auxv.h>

#include "own_memory.h"

namespace heapspy::trial {

namespace {

constexpr uint64_t kStackBytes = 256 << 10;
Players* all = nullptr;

}  // namespace

void Players::begin(uint32_t count, Body body) {
  players_ = static_cast<Player*>(shared_memory(count * sizeof(Player)));
  stacks_ = static_cast<char*>(shared_memory(count * kStackBytes));
  body_ = body;
  all = this;
  players_[0].started = 1;
  players_[0].tls = own_tls();
}

void* Players::run(void* of) {
  Player& player = *static_cast<Player*>(of);
  player.tls = own_tls();
  __atomic_store_n(&player.started, 1, __ATOMIC_RELEASE);
  wake(&player.started, 1);
  all->body_(player, static_cast<uint32_t>(&player - all->players_));
  return nullptr;
}

void Players::start(uint32_t id) {
  Player& player = players_[id];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stacks_ + id * kStackBytes, kStackBytes);
  errno = pthread_create(&player.handle, &attributes, run, &player);
  if (errno) fail("a thread of the replay cannot be made");
  wait_while(&player.started, 0);
}

void Players::join(uint32_t id) {
  pthread_join(players_[id].handle, nullptr);
  players_[id].started = 0;
}

#if defined(__x86_64__)
uint64_t Players::own_tls() {
  uint64_t tls;
  asm volatile("mov %%fs:0, %0" : "=r"(tls));
  return tls;
}

// asm/hwcap2.h: HWCAP2_FSGSBASE, Linux 5.9.
bool Players::can_become() { return (getauxval(AT_HWCAP2) & 2) != 0; }
void Players::become(uint64_t tls) { asm volatile("wrfsbase %0" : : "r"(tls) : "memory"); }
#else
uint64_t Players::own_tls() { return 0; }
bool Players::can_become() { return false; }
void Players::become(uint64_t) {}
#endif

}  // namespace heapspy::trial
