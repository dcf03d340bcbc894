// A child process in a known state.
#pragma once
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace heapspy::process_test {

// Forks; the child runs `prepare`, then `go_on` (or waits for a signal), and dies with its parent. The constructor
// returns when `prepare` has run.
class ForkedChild {
 public:
  explicit ForkedChild(const std::function<void()>& prepare, const std::function<void()>& go_on = {}) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      prepare();
      if (::write(ready[1], "r", 1) != 1) ::_exit(1);
      if (go_on) {
        go_on();
        ::_exit(0);
      }
      for (;;) ::pause();
    }
    char byte;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~ForkedChild() { end(); }
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;

  pid_t pid() const { return pid_; }
  // Leaves a zombie.
  void kill_only() const {
    ::kill(pid_, SIGKILL);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  void end() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  // Waits for the child's own end.
  int wait_status() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
};

}  // namespace heapspy::process_test
