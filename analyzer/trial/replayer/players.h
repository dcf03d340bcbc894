// The threads of a replay. Each is a thread of its own, made when its first call is due and ended where it ended, so that an
// allocator sees it come, and gets its caches back, as in the program.
#pragma once
#include <pthread.h>
#include <stdint.h>

namespace heapspy::trial {

struct Player {
  uint32_t turn;     // what the thread waits on; what it means is its body's business
  uint32_t started;  // 1 from start to end
  uint64_t tls;      // the thread's own
  uint64_t place;    // for its body
  pthread_t handle;
};

class Players {
 public:
  using Body = void (*)(Player&, uint32_t id);

  // `body` is what a thread does from its start on; when it returns the thread ends.
  void begin(uint32_t count, Body body);
  Player& operator[](uint32_t id) { return players_[id]; }
  void start(uint32_t id);  // returns when the thread's body has begun
  void join(uint32_t id);   // its body has returned, or is about to

  static uint64_t own_tls();
  // Whether a thread can take another's thread-local memory for its own, by one instruction.
  static bool can_become();
  static void become(uint64_t tls);

 private:
  static void* run(void* of);
  Player* players_ = nullptr;
  char* stacks_ = nullptr;
  Body body_ = nullptr;
};

}  // namespace heapspy::trial
