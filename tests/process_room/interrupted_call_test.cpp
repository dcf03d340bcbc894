#include "analyzer/process/interrupted_call.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <string>

#include "analyzer/process/quiet_call.h"
#include "analyzer/process/stopped_process.h"
#include "tests/process_room/forked_child.h"

namespace heapspy::process {
namespace {

using process_test::ForkedChild;

struct Waiting {
  const char* name;
  std::int64_t call;
  std::function<int(int end)> wait;                    // in the child; 0: it came to its own end
  std::function<void(int end, pid_t child)> let_come;  // what it waits for
};

void PrintTo(const Waiting& waiting, std::ostream* to) { *to << waiting.name; }

constexpr auto send_byte = [](int end, pid_t) { EXPECT_EQ(::write(end, "x", 1), 1); };

const Waiting kCalls[] = {
    {"epoll_wait", SYS_epoll_wait,
     [](int end) {
       const int set = ::epoll_create1(0);
       epoll_event event{EPOLLIN, {}};
       ::epoll_ctl(set, EPOLL_CTL_ADD, end, &event);
       return ::epoll_wait(set, &event, 1, -1) == 1 ? 0 : errno;
     },
     send_byte},
    {"recv_with_a_timeout", SYS_recvfrom,
     [](int end) {
       const timeval long_time{600, 0};
       ::setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &long_time, sizeof long_time);
       char byte;
       return ::recv(end, &byte, 1, 0) == 1 ? 0 : errno;
     },
     send_byte},
    {"sigtimedwait", SYS_rt_sigtimedwait,
     [](int) {
       sigset_t wanted;
       ::sigemptyset(&wanted);
       ::sigaddset(&wanted, SIGUSR1);
       const timespec long_time{600, 0};
       return ::sigtimedwait(&wanted, nullptr, &long_time) == SIGUSR1 ? 0 : errno;
     },
     [](int, pid_t child) { ::kill(child, SIGUSR1); }},
};

class InterruptedCall : public testing::TestWithParam<Waiting> {};

bool stands_in(const LiveProcess& process, std::int64_t call) {
  return parse_call_number(process.try_text("syscall").value_or("")) == call;
}

TEST_P(InterruptedCall, GoesOnHoweverOftenSomebodyLooks) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ForkedChild child(
      [] {
        sigset_t blocked;
        ::sigemptyset(&blocked);
        ::sigaddset(&blocked, SIGUSR1);
        ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
      },
      [&] { ::_exit(GetParam().wait(ends[1])); });
  const LiveProcess process(child.pid());
  for (int i = 0; i < 20; i++) {
    while (process.alive() && !stands_in(process, GetParam().call)) ::sched_yield();
    ASSERT_TRUE(process.alive()) << "it ended with " << WEXITSTATUS(child.wait_status()) << " after look " << i;
    try {
      StoppedProcess stopped(process);
    } catch (const TargetError& error) {
      GTEST_SKIP() << error.what();
    }
  }
  GetParam().let_come(ends[0], child.pid());
  EXPECT_EQ(WEXITSTATUS(child.wait_status()), 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

// A signal that comes while it stands still is its own: its handler runs, and the call ends as it would have.
TEST(InterruptedCallAlone, EndsForASignalThatCameMeanwhile) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ForkedChild child([] { ::signal(SIGUSR1, [](int) {}); }, [&] { ::_exit(kCalls[0].wait(ends[1])); });
  const LiveProcess process(child.pid());
  while (!stands_in(process, SYS_epoll_wait)) ::sched_yield();
  try {
    StoppedProcess stopped(process);
    ::kill(child.pid(), SIGUSR1);
  } catch (const TargetError& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_EQ(WEXITSTATUS(child.wait_status()), EINTR);
  ::close(ends[0]);
  ::close(ends[1]);
}

INSTANTIATE_TEST_SUITE_P(Calls, InterruptedCall, testing::ValuesIn(kCalls),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace heapspy::process
