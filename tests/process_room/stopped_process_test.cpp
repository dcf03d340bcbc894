// Stopping a process: it stands still as a whole, and afterwards nobody could tell.
#include "analyzer/process/stopped_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "tests/process_room/forked_child.h"
#include "tests/support/amounts.h"

namespace heapspy::process {
namespace {

using test::kPage;

using process_test::ForkedChild;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename Value>
Value* shared() {
  void* memory = ::mmap(nullptr, sizeof(Value), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Value();
}

bool may_stop(pid_t pid) {
  try {
    const LiveProcess process(pid);
    StoppedProcess stopped(process);
    return true;
  } catch (const TargetError&) {
    return false;
  }
}

constexpr int kThreads = 5;
struct Counters {
  std::atomic<std::uint64_t> of[kThreads];
};

TEST(StoppedProcess, StandsStillInAllItsThreadsAndThenGoesOn) {
  auto* counters = shared<Counters>();
  ASSERT_NE(counters, nullptr);
  ForkedChild child([] {},
                    [counters] {
                      std::thread threads[kThreads];
                      for (int i = 0; i < kThreads; i++)
                        threads[i] = std::thread([counters, i] {
                          for (;;) counters->of[i]++;
                        });
                      threads[0].join();
                    });
  if (!may_stop(child.pid())) GTEST_SKIP() << "this process may not stop others";
  for (int i = 0; i < kThreads; i++)
    while (counters->of[i] == 0) std::this_thread::yield();
  const LiveProcess process(child.pid());
  for (int round = 0; round < 20; round++) {
    StoppedProcess stopped(process);
    EXPECT_EQ(stopped.threads().size(), kThreads + 1u);
    for (const ThreadState& thread : stopped.threads()) EXPECT_TRUE(thread.thread_pointer && thread.stack_pointer);
    std::uint64_t at[kThreads];
    for (int i = 0; i < kThreads; i++) at[i] = counters->of[i];
    EXPECT_EQ(stopped.read_value<std::uint64_t>(reinterpret_cast<std::uint64_t>(&counters->of[2])), at[2]);
    for (int i = 0; i < kThreads; i++) EXPECT_EQ(counters->of[i], at[i]);
    EXPECT_GT(stopped.release(), 0);
    for (int i = 0; i < kThreads; i++)
      while (counters->of[i] == at[i]) std::this_thread::yield();
  }
}

TEST(StoppedProcess, LeavesAThreadToHimWhoHoldsItAlready) {
  auto* counters = shared<Counters>();
  ASSERT_NE(counters, nullptr);
  ForkedChild child([] {},
                    [counters] {
                      std::thread other([counters] {
                        for (;;) counters->of[1]++;
                      });
                      for (;;) counters->of[0]++;
                    });
  if (!may_stop(child.pid())) GTEST_SKIP() << "this process may not stop others";
  while (counters->of[0] == 0 || counters->of[1] == 0) std::this_thread::yield();
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, child.pid(), nullptr, nullptr), 0);
  ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, child.pid(), nullptr, nullptr), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, __WALL), child.pid());
  const std::uint64_t held = counters->of[0];
  const LiveProcess process(child.pid());
  {
    const StoppedProcess stopped(process, child.pid());
    ASSERT_EQ(stopped.threads().size(), 2u);
    for (const ThreadState& thread : stopped.threads()) EXPECT_TRUE(thread.thread_pointer && thread.stack_pointer);
    const std::uint64_t at = counters->of[1];
    std::this_thread::yield();
    EXPECT_EQ(counters->of[1], at);
  }
  const std::uint64_t at = counters->of[1];
  while (counters->of[1] == at) std::this_thread::yield();
  EXPECT_EQ(counters->of[0], held);
  EXPECT_EQ(::ptrace(PTRACE_DETACH, child.pid(), nullptr, nullptr), 0);
  while (counters->of[0] == held) std::this_thread::yield();
}

// One of its threads, in the kernel: "TID (NAME) D …".
bool sleeps_uninterruptibly(const LiveProcess& process) {
  for (const pid_t tid : process.tasks())
    if (process.text("task/" + std::to_string(tid) + "/stat").find(") D ") != std::string::npos) return true;
  return false;
}

TEST(StoppedProcess, LetsGoOfAThreadThatCouldNotBeStopped) {
  auto* counters = shared<Counters>();
  ASSERT_NE(counters, nullptr);
  int order[2];
  ASSERT_EQ(::pipe(order), 0);
  ForkedChild child([] {},
                    [&] {
                      std::thread sleeper([&] {
                        if (::vfork() == 0) {  // its parent cannot be interrupted until it has gone
                          char byte;
                          (void)!::read(order[0], &byte, 1);
                          ::_exit(0);
                        }
                        for (;;) counters->of[0]++;
                      });
                      for (;;) counters->of[1]++;
                    });
  if (!may_stop(child.pid())) GTEST_SKIP() << "this process may not stop others";
  const LiveProcess process(child.pid());
  while (!sleeps_uninterruptibly(process)) std::this_thread::yield();
  EXPECT_EQ(StoppedProcess(process).asleep(), 1u);
  ASSERT_EQ(::write(order[1], "e", 1), 1);
  while (counters->of[0] == 0) std::this_thread::yield();
}

std::atomic<int>* signals_taken;

TEST(StoppedProcess, LosesNoSignal) {
  signals_taken = shared<std::atomic<int>>();
  ASSERT_NE(signals_taken, nullptr);
  ForkedChild child([] { ::signal(SIGRTMIN + 1, [](int) { (*signals_taken)++; }); });
  if (!may_stop(child.pid())) GTEST_SKIP() << "this process may not stop others";
  constexpr int kSignals = 2000;
  std::thread sender([&child] {
    for (int i = 0; i < kSignals; i++)
      while (::sigqueue(child.pid(), SIGRTMIN + 1, {}) != 0) std::this_thread::yield();  // the queue is full
  });
  const LiveProcess process(child.pid());
  for (int i = 0; i < 100; i++) StoppedProcess(process).release();
  sender.join();
  while (*signals_taken < kSignals) std::this_thread::yield();
  EXPECT_EQ(*signals_taken, kSignals);
}

TEST(StoppedProcess, IsLetGoWhenItsReaderGoesAway) {
  auto* counter = shared<std::atomic<std::uint64_t>>();
  ForkedChild child([] {},
                    [counter] {
                      for (;;) (*counter)++;
                    });
  if (!may_stop(child.pid())) GTEST_SKIP() << "this process may not stop others";
  const pid_t reader = ::fork();
  if (reader == 0) {
    const LiveProcess process(child.pid());
    const StoppedProcess stopped(process);
    ::_exit(0);  // no destructor runs
  }
  ::waitpid(reader, nullptr, 0);
  const std::uint64_t now = *counter;
  while (*counter == now) std::this_thread::yield();
}

TEST(StoppedProcess, ReadsPiecesAndSaysWhichAreNotThere) {
  static char* pages;
  pages = static_cast<char*>(::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ForkedChild child([] {
    std::memset(pages, 'a', 2 * kPage);
    std::memset(pages + 3 * kPage, 'd', kPage);
    ::mprotect(pages + kPage, kPage, PROT_NONE);  // /proc/PID/mem reads it all the same
    ::munmap(pages + 2 * kPage, kPage);
  });
  if (!may_stop(child.pid())) GTEST_SKIP() << "this process may not stop others";
  const LiveProcess process(child.pid());
  const StoppedProcess stopped(process);
  const auto at = reinterpret_cast<std::uint64_t>(pages);
  std::string to(10, '?');
  const Piece pieces[] = {{at, 2}, {at + kPage, 3}, {at + 2 * kPage, 1}, {at + 3 * kPage, 2}, {8, 1}, {at + 3 * kPage, 1}};
  EXPECT_THAT(stopped.read_pieces(pieces, reinterpret_cast<std::byte*>(to.data())),
              ElementsAre(true, true, false, true, false, true));
  EXPECT_EQ(to, std::string("aaaaa\0dd\0d", 10));
  ::munmap(pages, 4 * kPage);
}

TEST(StoppedProcess, TellsPagesOfZerosFromThoseThatAreInMemory) {
  static char* pages;
  pages = static_cast<char*>(::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::madvise(pages, 4 * kPage, MADV_NOHUGEPAGE);
  ForkedChild child([] {
    pages[0] = 1;
    static volatile char read = pages[2 * kPage];
    (void)read;
  });
  const LiveProcess process(child.pid());
  const auto states = process.page_states(reinterpret_cast<std::uint64_t>(pages), 4);
  if (!states) GTEST_SKIP() << "this process may not read the pagemap of others";
  EXPECT_EQ((*states)[0], PageState::resident);
  EXPECT_EQ((*states)[1], PageState::absent);
  EXPECT_THAT((*states)[2], testing::AnyOf(PageState::zero, PageState::resident));  // resident: before Linux 6.7
  EXPECT_EQ((*states)[3], PageState::absent);
  ::munmap(pages, 4 * kPage);
}

std::string refusal(pid_t pid) {
  try {
    const LiveProcess process(pid);
    StoppedProcess stopped(process);
  } catch (const TargetError& error) {
    return error.what();
  }
  return "";
}

TEST(StoppedProcess, ThatHasEndedOrIsThisOneIsRefusedInOneLine) {
  ForkedChild child([] {});
  child.kill_only();  // a zombie
  EXPECT_EQ(refusal(child.pid()), "process " + std::to_string(child.pid()) + " has ended");
  EXPECT_EQ(refusal(::getpid()), "a process cannot stop itself");
}

TEST(StoppedProcess, ThatIsBeingDebuggedIsRefusedAndSaysByWhom) {
  ForkedChild child([] {});
  if (!may_stop(child.pid())) GTEST_SKIP() << "this process may not stop others";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t debugger = ::fork();
  if (debugger == 0) {
    const LiveProcess process(child.pid());
    const StoppedProcess stopped(process);
    (void)!::write(ready[1], "r", 1);
    for (;;) ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(refusal(child.pid()), HasSubstr("is being traced by process " + std::to_string(debugger) + " "));
  ::kill(debugger, SIGKILL);
  ::waitpid(debugger, nullptr, 0);
  EXPECT_EQ(refusal(child.pid()), "");
}

}  // namespace
}  // namespace heapspy::process
