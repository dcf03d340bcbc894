#include "analyzer/process/child_process.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>

#include "analyzer/process/live_process.h"

namespace heapspy::process {
namespace {

using testing::Contains;
using testing::Not;

int status_of(const ChildPlan& plan) {
  int status = 0;
  ::waitpid(start_child(plan), &status, 0);
  return status;
}

TEST(ChildProcess, PassesArgumentsAsTheyAre) {
  EXPECT_EQ(status_of({{"sh", "-c", "test \"$#\" = 3 && test \"$1\" = '[a,b]' && test \"$2\" = -h && test -z \"$3\"", "sh",
                        "[a,b]", "-h", ""},
                       {},
                       {}}),
            0);
}

TEST(ChildProcess, SetsAndRemovesVariables) {
  ::setenv("HEAPSPY_TEST_A", "1", 1);
  ::setenv("HEAPSPY_TEST_B", "2", 1);
  const EnvironmentChanges changes = {
      {"HEAPSPY_TEST_A", std::nullopt}, {"HEAPSPY_TEST_B", "new value"}, {"HEAPSPY_TEST_C", "3"}};
  EXPECT_EQ(
      status_of(
          {{"sh", "-c", "test \"${HEAPSPY_TEST_A-none}.$HEAPSPY_TEST_B.$HEAPSPY_TEST_C\" = 'none.new value.3'"}, changes, {}}),
      0);
  const std::vector<std::string> all = changed_environment(changes);
  EXPECT_THAT(all, Contains("HEAPSPY_TEST_B=new value").Times(1));
  EXPECT_THAT(all, Not(Contains(testing::StartsWith("HEAPSPY_TEST_A="))));
}

TEST(ChildProcess, SaysWhatCannotBeStarted) {
  try {
    start_child({{"heapspy-no-such-program"}, {}, {}});
    FAIL() << "started";
  } catch (const StartError& error) {
    EXPECT_EQ(error.error, ENOENT);
    EXPECT_STREQ(error.what(), "heapspy-no-such-program: command not found");
  }
  try {
    start_child({{"/etc/passwd"}, {}, {}});
    FAIL() << "started";
  } catch (const StartError& error) {
    EXPECT_EQ(error.error, EACCES);
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
}

TEST(ChildProcess, WaitsForWhatMustHappenBeforeIt) {
  bool was_ours = false;
  const pid_t pid = start_child({{"true"}, {}, {}}, [&](pid_t child) {
    was_ours = LiveProcess(child).link("exe") == LiveProcess(::getpid()).link("exe");
  });
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(was_ours);
  EXPECT_EQ(status, 0);
}

TEST(ChildProcess, HasNoSignalsBlocked) {
  sigset_t all, before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const int status = status_of({{"sh", "-c", "kill -TERM $$"}, {}, {}});
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

}  // namespace
}  // namespace heapspy::process
