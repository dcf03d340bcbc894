// One thread of a live process, borrowed to run one function of it: malloc_trim. It is taken where it returns from a system
// call that malloc never makes (quiet_call.h), in libc's own code, in no signal handler; all other threads run on, so that
// locks which they hold become free. Afterwards it goes on as if nothing had been: registers, vector registers, signal mask,
// and a call that was interrupted starts again as the kernel does it.
//
// While a thread is borrowed, signals that would end this program wait (the destructor lets them come). A function that waits
// for a lock too long is taken back; one that works is waited for.
#pragma once
#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/process/live_process.h"
#include "analyzer/process/mappings.h"

namespace heapspy::process {

struct CallOutcome {
  std::uint64_t value = 0;  // what the function returned
  double seconds = 0;
  std::optional<std::uint64_t> madvise_calls;
};

class BorrowedThread {
 public:
  // `library`: libc as the mappings name it. Throws TargetError: no thread came to such a point in time, or the process does
  // not let its threads be borrowed; nothing was changed then. `process` must outlive it; one thread only uses it (ptrace).
  BorrowedThread(const LiveProcess& process, const std::string& library, std::chrono::milliseconds patience);
  ~BorrowedThread();
  BorrowedThread(const BorrowedThread&) = delete;
  BorrowedThread& operator=(const BorrowedThread&) = delete;

  pid_t tid() const { return tid_; }
  // Number of the system call at which it stands.
  std::int64_t at_call() const;

  // Once. `count_madvise`: exact, but each system call of the function takes some µs longer. Throws TargetError; the thread is
  // as before then too.
  CallOutcome call(std::uint64_t function, std::uint64_t argument, bool count_madvise, std::chrono::milliseconds patience);
  void give_back();

 private:
  struct State;
  enum class Event { none, interrupted, call, signal, ended };

  bool take(pid_t tid, std::chrono::steady_clock::time_point until);
  bool quiet() const;
  void let_go_of_thread();
  Event wait(std::chrono::steady_clock::time_point until);
  bool resume(int request, int signal);
  bool interrupt_and_wait();
  void restore();
  CallOutcome run(bool count_madvise, std::chrono::milliseconds patience);
  [[noreturn]] void ended() const;

  const LiveProcess& process_;
  std::vector<Mapping> code_, mappings_;
  std::vector<std::uint64_t> handler_returns_;  // where signal handlers return to
  pid_t tid_ = 0;
  int stop_signal_ = 0, pending_signal_ = 0;
  bool running_ = false, changed_ = false;
  std::unique_ptr<State> state_;
  sigset_t own_mask_{};
};

}  // namespace heapspy::process
