// How long the threads of a running program wait for locks, by sampling: no thread is stopped and nothing is traced.
//
// A thread that waits for a pthread mutex, or for a lock of the allocator, is in futex(FUTEX_WAIT | FUTEX_PRIVATE_FLAG)
// with the value 2 (glibc's lowlevellock.h and pthread_mutex: "locked, with waiters"). Condition variables, joins and
// timers use other operations or values and are not counted. jemalloc's locks are pthread mutexes; tcmalloc and mimalloc
// spin and yield, so theirs are not seen.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

namespace heapspy::trial {

// Whether the text of /proc/PID/task/TID/syscall says so. nullopt: it says nothing (not readable, empty).
std::optional<bool> waits_for_lock(std::string_view text);

class LockWaitSampler {
 public:
  static constexpr std::chrono::milliseconds kEvery{20};

  LockWaitSampler() = default;
  ~LockWaitSampler();
  LockWaitSampler(const LockWaitSampler&) = delete;
  LockWaitSampler& operator=(const LockWaitSampler&) = delete;

  // Watches this process too, from now on; the first call starts the thread that looks. Any thread.
  void add(pid_t pid);
  // Stops looking. Seconds that threads waited, summed over threads: samples in which a thread waited, times the time
  // between samples. nullopt: no look succeeded.
  std::optional<double> finish();

 private:
  void run();
  bool look(double since_last_s);

  std::mutex lock_;
  std::condition_variable stop_wanted_;
  std::vector<pid_t> pids_;
  bool stop_ = false;
  bool saw_anything_ = false;
  double waited_s_ = 0;
  std::thread thread_;
};

}  // namespace heapspy::trial
