// A lock for the recorder's cold paths. Zero is unlocked, so memory that fork wiped is unlocked. Held for microseconds, by
// threads whose signals are blocked.
#pragma once
#include <time.h>

#include <atomic>
#include <cstdint>

#include "os.h"

namespace heapspy {

class Lock {
 public:
  void lock() {
    uint32_t free = 0;
    if (word_.compare_exchange_strong(free, 1, std::memory_order_acquire)) return;
    while (word_.exchange(2, std::memory_order_acquire) != 0) os::futex_wait(reinterpret_cast<uint32_t*>(&word_), 2, nullptr);
  }
  bool try_lock() {
    uint32_t free = 0;
    return word_.compare_exchange_strong(free, 1, std::memory_order_acquire);
  }
  // Gives up after about this long.
  bool lock_within(int milliseconds) {
    for (int i = 0; i < milliseconds; i++) {
      if (try_lock()) return true;
      const timespec one = {0, 1000000};
      if (word_.exchange(2, std::memory_order_acquire) == 0) return true;
      os::futex_wait(reinterpret_cast<uint32_t*>(&word_), 2, &one);
    }
    return try_lock();
  }
  void unlock() {
    if (word_.exchange(0, std::memory_order_release) == 2) os::futex_wake(reinterpret_cast<uint32_t*>(&word_));
  }

 private:
  std::atomic<uint32_t> word_;
};

class Locked {
 public:
  explicit Locked(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Lock& lock_;
};

}  // namespace heapspy
