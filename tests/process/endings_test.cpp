// However a process ends, what was recorded until then is readable.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <ostream>
#include <random>

#include "tests/process/counted_calls.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

struct Ending {
  const char* how;
  int exit_status, signal;
  const char* end;
};

void PrintTo(const Ending& ending, std::ostream* to) { *to << ending.how; }

class EveryEnding : public testing::TestWithParam<Ending> {};

TEST_P(EveryEnding, LeavesEveryEventReadable) {
  const Ending& ending = GetParam();
  Recording run({.command = {victim("ends"), ending.how}});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, ending.exit_status);
  EXPECT_EQ(outcome.signal, ending.signal);
  EXPECT_EQ(outcome.out + outcome.err, "");
  const report::Report report = run.report();
  expect_whole(report);
  EXPECT_EQ(report.process.end, ending.end);
  const report::ThreadReport thread = thread_named(report, "t-ends");
  EXPECT_EQ(thread.allocations, 20000u);
  EXPECT_EQ(thread.frees, 5000u);
  EXPECT_EQ(thread.live_bytes, 15000u * 32);
}

INSTANTIATE_TEST_SUITE_P(Endings, EveryEnding,
                         testing::Values(Ending{"return", 5, 0, "exit"}, Ending{"exit", 5, 0, "exit"},
                                         Ending{"_exit", 5, 0, "exit"}, Ending{"_Exit", 5, 0, "exit"},
                                         Ending{"thread", 5, 0, "exit"}, Ending{"quick_exit", 5, 0, "exit"},
                                         Ending{"exit_group", 5, 0, "killed"}, Ending{"abort", -1, SIGABRT, "killed"},
                                         Ending{"SIGKILL", -1, SIGKILL, "killed"}, Ending{"SIGTERM", -1, SIGTERM, "killed"},
                                         Ending{"SIGSEGV", -1, SIGSEGV, "killed"}, Ending{"stack", -1, SIGSEGV, "killed"}),
                         [](const auto& test) { return std::string(test.param.how); });

TEST(Endings, AmidAllocationsOfOtherThreadsAreReadable) {
  for (int i = 0; i < 20; i++) {
    Recording run({.command = {victim("exits_amid")}, .limit_s = 30});
    const Outcome& outcome = run.finish();
    EXPECT_EQ(outcome.exit_status, 5) << outcome;
    EXPECT_EQ(outcome.out + outcome.err, "");
    const report::Report report = run.report();
    expect_whole(report);
    EXPECT_EQ(report.process.end, "exit");
    EXPECT_EQ(report.totals.unknown_frees, 0u);
    EXPECT_GE(report.threads.size(), 9u);
  }
}

TEST(Endings, AKillAtAnyMomentLosesNoEvent) {
  std::mt19937_64 random(20261130);
  for (int i = 0; i < 30; i++) {
    SCOPED_TRACE(i);
    // From before the first half ring is full to well after many were appended.
    const std::uint64_t target = std::uniform_int_distribution<std::uint64_t>(1, i % 3 == 0 ? 3000 : 400000)(random);
    Recording run({.command = {victim("counts_while_it_works")}});
    const CountedCalls calls(run);
    calls.wait_for(target);
    kill(run.pid(), SIGKILL);
    EXPECT_EQ(run.finish().signal, SIGKILL);
    const report::Report report = run.report();
    EXPECT_EQ(report.process.end, "killed");
    calls.expect_in(report);
  }
}

}  // namespace
}  // namespace heapspy::test
