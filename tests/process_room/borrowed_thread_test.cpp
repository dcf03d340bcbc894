// A borrowed thread: it runs a function, and afterwards nobody could tell.
#include "analyzer/process/borrowed_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <thread>

#include "tests/process_room/forked_child.h"

namespace heapspy::process {
namespace {

using process_test::ForkedChild;
using std::chrono::milliseconds;
using testing::HasSubstr;

// Seen by the child and by this process.
struct Seen {
  std::atomic<std::uint64_t> calls, argument, tid, rounds, wrong, signals, go_on, ready;
};
Seen* seen;
pthread_mutex_t* lock;

// Runs in the child. It has the same address there.
std::uint64_t function(std::uint64_t argument) {
  seen->argument = argument;
  seen->tid = static_cast<std::uint64_t>(::syscall(SYS_gettid));
  seen->calls++;
  return argument + 1;
}
std::uint64_t waits_for_lock(std::uint64_t) {
  ::pthread_mutex_lock(lock);
  seen->calls++;
  ::pthread_mutex_unlock(lock);
  return 0;
}
std::uint64_t waits_for_word(std::uint64_t) {
  seen->calls++;
  while (!seen->go_on) ::sched_yield();
  return seen->signals;
}
// For longer than an interrupt is waited for: until its child has ended, a thread in vfork cannot be interrupted.
std::uint64_t waits_for_child(std::uint64_t) {
  if (::vfork() == 0) {
    ::poll(nullptr, 0, 1200);
    ::_exit(0);
  }
  seen->calls++;
  return 42;
}
std::uint64_t fails(std::uint64_t) { __builtin_trap(); }
std::uint64_t ends(std::uint64_t) { ::_exit(0); }

std::uint64_t address_of(std::uint64_t (*code)(std::uint64_t)) { return reinterpret_cast<std::uint64_t>(code); }

std::string libc() {
  for (const Mapping& each : parse_mappings(LiveProcess(::getpid()).text("maps")).mappings)
    if (each.name.find("/libc.so") != std::string::npos || each.name.find("/libc-2") != std::string::npos) return each.name;
  return "";
}

class Borrowed : public testing::Test {
 protected:
  void SetUp() override {
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "not here";
#endif
    seen = new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Seen();
    lock = reinterpret_cast<pthread_mutex_t*>(seen + 1);
    pthread_mutexattr_t shared;
    ::pthread_mutexattr_init(&shared);
    ::pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    ::pthread_mutex_init(lock, &shared);
    ForkedChild child([] {});
    try {
      const LiveProcess process(child.pid());
      const BorrowedThread thread(process, libc(), milliseconds(5000));
    } catch (const TargetError& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override { ::munmap(seen, 4096); }

  static CallOutcome call(const ForkedChild& child, std::uint64_t (*code)(std::uint64_t), int patience_ms = 60000) {
    const LiveProcess process(child.pid());
    BorrowedThread thread(process, libc(), milliseconds(60000));
    return thread.call(address_of(code), 41, false, milliseconds(patience_ms));
  }
  static std::string refusal(const ForkedChild& child, std::uint64_t (*code)(std::uint64_t), int patience_ms) {
    try {
      const LiveProcess process(child.pid());
      BorrowedThread thread(process, libc(), milliseconds(patience_ms));
      thread.call(address_of(code), 41, false, milliseconds(patience_ms));
    } catch (const TargetError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Borrowed, RunsAFunctionInItsOwnProcessAndTellsWhatItReturned) {
  ForkedChild child([] {});
  EXPECT_EQ(call(child, function).value, 42u);
  EXPECT_EQ(seen->argument, 41u);
  EXPECT_EQ(seen->tid, static_cast<std::uint64_t>(child.pid()));
  EXPECT_EQ(call(child, function).value, 42u);
  EXPECT_EQ(seen->calls, 2u);
}

TEST_F(Borrowed, ItsInterruptedCallsStartAgainAndNeverSayThatTheyWereInterrupted) {
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  ForkedChild child([] {},
                    [&] {
                      const auto expect = [](bool right) { seen->wrong += !right; };
                      char byte;
                      expect(::read(pipes[0], &byte, 1) == 1 && byte == 'r');
                      const timespec some{0, 20'000'000};
                      while (!seen->go_on) {
                        expect(::nanosleep(&some, nullptr) == 0);
                        expect(::poll(nullptr, 0, 20) == 0);
                        pollfd input{pipes[0], POLLIN, 0};
                        expect(::poll(&input, 1, 20) == 0);
                        seen->rounds++;
                      }
                    });
  for (int i = 0; i < 5; i++) call(child, function);
  ASSERT_EQ(::write(pipes[1], "r", 1), 1);
  for (int i = 0; i < 20; i++) call(child, function);
  const std::uint64_t rounds = seen->rounds;
  while (seen->rounds < rounds + 2) std::this_thread::yield();
  seen->go_on = 1;
  EXPECT_EQ(child.wait_status(), 0);
  EXPECT_EQ(seen->calls, 25u);
  EXPECT_EQ(seen->wrong, 0u);
}

TEST_F(Borrowed, SignalsWaitUntilTheFunctionIsOverAndThenArrive) {
  ForkedChild child([] { ::signal(SIGUSR1, [](int) { seen->signals++; }); });
  std::thread sender([&] {
    while (seen->calls == 0) std::this_thread::yield();
    ::kill(child.pid(), SIGUSR1);
    seen->go_on = 1;
  });
  EXPECT_EQ(call(child, waits_for_word).value, 0u);  // none had come when it returned
  sender.join();
  while (seen->signals == 0) std::this_thread::yield();
}

TEST_F(Borrowed, AThreadThatComputesHasNoSafeMomentAndGoesOn) {
  ForkedChild child([] {},
                    [] {
                      for (;;) seen->rounds++;
                    });
  while (seen->rounds == 0) std::this_thread::yield();  // it makes no more system calls
  EXPECT_THAT(refusal(child, function, 100), HasSubstr("came to a system call at which it is safe"));
  const std::uint64_t rounds = seen->rounds;
  while (seen->rounds == rounds) std::this_thread::yield();
  EXPECT_EQ(seen->calls, 0u);
}

TEST_F(Borrowed, AThreadInASignalHandlerIsLeftAlone) {
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  static int input;
  input = pipes[0];
  ForkedChild child([] {},
                    [] {
                      ::signal(SIGUSR1, [](int) {
                        seen->ready = 1;
                        char byte;
                        seen->rounds = static_cast<std::uint64_t>(::read(input, &byte, 1));
                      });
                      ::raise(SIGUSR1);
                      for (;;) ::pause();
                    });
  while (!seen->ready) std::this_thread::yield();
  EXPECT_THAT(refusal(child, function, 100), HasSubstr("nothing was changed"));
  ASSERT_EQ(::write(pipes[1], "r", 1), 1);
  while (seen->rounds != 1) std::this_thread::yield();
  call(child, function);  // in pause() it may
  EXPECT_EQ(seen->calls, 1u);
}

TEST_F(Borrowed, AFunctionThatWaitsForALockIsTakenBack) {
  ForkedChild child([] {});
  ::pthread_mutex_lock(lock);
  EXPECT_THAT(refusal(child, waits_for_lock, 50), HasSubstr("was taken back"));
  ::pthread_mutex_unlock(lock);
  EXPECT_EQ(seen->calls, 0u);
  EXPECT_EQ(call(child, function).value, 42u);
}

TEST_F(Borrowed, AFunctionThatReturnsWhileItIsInterruptedHasReturned) {
  ForkedChild child([] {});
  for (int i = 0; i < 60; i++) ASSERT_EQ(call(child, function, 0).value, 42u) << i;
  EXPECT_EQ(seen->calls, 60u);
  EXPECT_TRUE(LiveProcess(child.pid()).alive());
}

TEST_F(Borrowed, AFunctionInACallThatCannotBeInterruptedIsWaitedFor) {
  ForkedChild child([] {});
  EXPECT_EQ(call(child, waits_for_child, 0).value, 42u);
  EXPECT_EQ(seen->calls, 1u);
  EXPECT_EQ(call(child, function).value, 42u);
}

TEST_F(Borrowed, AFunctionThatFaultsIsTakenBackAndNoHandlerSeesIt) {
  ForkedChild child([] { ::signal(SIGILL, [](int) { seen->signals++; }); });
  EXPECT_THAT(refusal(child, fails, 60000), HasSubstr("raised signal 4 (ILL)"));
  EXPECT_EQ(call(child, function).value, 42u);
  EXPECT_EQ(seen->signals, 0u);
}

TEST_F(Borrowed, HandlersAndMasksStayAsTheyWere) {
  ForkedChild child([] {
    ::signal(SIGSEGV, [](int) { ::_exit(7); });
    sigset_t mask;
    ::sigemptyset(&mask);
    ::sigaddset(&mask, SIGUSR2);
    ::sigprocmask(SIG_BLOCK, &mask, nullptr);
  });
  const auto signals = [&] {
    const std::string status = LiveProcess(child.pid()).text("status");
    return status.substr(status.find("SigBlk"), status.find("CapInh") - status.find("SigBlk"));
  };
  const std::string before = signals();
  call(child, function);
  EXPECT_EQ(signals(), before);
  ::kill(child.pid(), SIGSEGV);
  EXPECT_EQ(WEXITSTATUS(child.wait_status()), 7);
}

TEST_F(Borrowed, AProcessThatIgnoresTheSignalThatIsNeededIsRefused) {
  ForkedChild child([] { ::signal(SIGSEGV, SIG_IGN); });
  EXPECT_THAT(refusal(child, function, 60000), HasSubstr("ignores SIGSEGV"));
}

TEST_F(Borrowed, AProcessThatEndsInTheFunctionIsSaidToHaveEnded) {
  ForkedChild child([] {});
  EXPECT_EQ(refusal(child, ends, 60000), "process " + std::to_string(child.pid()) + " has ended");
}

TEST_F(Borrowed, AStopThatCameMeanwhileStopsTheProcessAfterwards) {
  ForkedChild child([] {});
  std::thread sender([&] {
    while (seen->calls == 0) std::this_thread::yield();
    ::kill(child.pid(), SIGSTOP);
    seen->go_on = 1;
  });
  call(child, waits_for_word);
  sender.join();
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  EXPECT_TRUE(WIFSTOPPED(status));
  ::kill(child.pid(), SIGCONT);
}

}  // namespace
}  // namespace heapspy::process
