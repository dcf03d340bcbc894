// The order between threads without a clock at each event, held against the time of every call (support/merge_truth.h).
// scripts/bench-merge does the same with more programs and more events.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/process/recording.h"
#include "tests/support/merge_truth.h"

namespace heapspy::test {
namespace {

class Merge : public testing::Test {
 protected:
  void SetUp() override {
#if !defined(__x86_64__) || !defined(__GLIBC__)
    GTEST_SKIP() << "lib_truth.c reads the TSC and calls glibc";
#endif
  }

  // More than `most_per_100000` frees joined to the wrong block, rounded up, fail the test.
  static void expect_right(std::vector<std::string> command, std::uint64_t least_frees, std::uint64_t most_per_100000) {
    Recording run({.command = std::move(command),
                   .preload_beneath = {victim_library("truth")},
                   .environment = {{"TRUTH_OUT", "@/truth/"}},
                   .in_folder = [] { ASSERT_EQ(mkdir("truth", 0700), 0); }});
    EXPECT_EQ(run.finish().exit_status, 0);
    const trace::Reader reader(run.trace());
    if (reader.header().tick_kind != format::TickKind::tsc4) GTEST_SKIP() << "no invariant TSC";
    const MergeTruth found = compare_with_truth(reader, run.file("truth"));
    EXPECT_EQ(found.impossible, 0u) << "in the truth itself";
    EXPECT_EQ(found.unpaired, 0u);
    EXPECT_GE(found.frees, least_frees);
    EXPECT_LE(found.wrong, (found.frees * most_per_100000 + 99'999) / 100'000) << "of " << found.frees;
    EXPECT_LE(found.counts.repaired_events, found.counts.reordered_events);
  }
};

TEST_F(Merge, JoinsFreesOfBlocksThatFourThreadsPassRound) { expect_right({victim("w3_pass"), "100000", "4"}, 400'000, 1); }
TEST_F(Merge, JoinsFreesOfBlocksThatSixteenThreadsPassRound) { expect_right({victim("w3_pass"), "20000", "16"}, 320'000, 1); }
TEST_F(Merge, JoinsFreesOfThreadsThatEnd) { expect_right({victim("thread_exit_frees")}, 4320, 1); }
// Other threads give the same few addresses out and back within microseconds of each burst: on a busy machine one in 100 000 is
// a mean, not a bound.
TEST_F(Merge, JoinsFreesOfThreadsThatSleepAndBurst) { expect_right({victim("sleeps_and_bursts"), "200"}, 200'000, 10); }

}  // namespace
}  // namespace heapspy::test
