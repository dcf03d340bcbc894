// What each HEAPSPY_MODE keeps of a program, and that the program does not notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tests/process/memory_cgroup.h"
#include "tests/process/recording.h"
#include "tests/support/amounts.h"

namespace heapspy::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Launch rings(const std::string& threads, const std::string& rounds, const std::string& what,
             std::vector<std::pair<std::string, std::string>> environment = {}) {
  environment.insert(environment.begin(), {"HEAPSPY_MODE", "ring"});
  return {.command = {victim("rings"), threads, rounds, what}, .environment = environment};
}

// Copies that a trigger froze stand beside the trace: NAME.1.hspy.
std::vector<std::string> copies(const Recording& run) {
  std::vector<std::string> found;
  for (const std::string& path : run.traces()) {
    const std::string stem = std::filesystem::path(path).stem().string();
    if (stem[stem.size() - 2] == '.') found.push_back("traces/" + std::filesystem::path(path).filename().string());
  }
  return found;
}
report::Report trace_of(const Recording& run) {
  for (const std::string& path : run.traces()) {
    const std::string name = "traces/" + std::filesystem::path(path).filename().string();
    const std::vector<std::string> all = copies(run);
    if (std::find(all.begin(), all.end(), name) == all.end()) return run.report_in(name);
  }
  ADD_FAILURE() << "no trace";
  return {};
}

TEST(ModeRing, KeepsEverythingWhileItFits) {
  const Compared compared = expect_unchanged(rings("2", "10000", "nothing"));
  const report::Report report = compared.recording->report();
  EXPECT_EQ(report.trace.mode, "ring");
  EXPECT_EQ(report.trace.lost_events, 0u);
  EXPECT_TRUE(report.trace.ring->whole);
  EXPECT_EQ(thread_named(report, "churn-0").allocations, 10000u);
  EXPECT_EQ(thread_named(report, "churn-1").frees, 10000u);
  EXPECT_EQ(report.totals.unknown_frees, 0u);
  EXPECT_EQ(report.totals.before_ring_frees.value_or(0), 0u);
}

TEST(ModeRing, KeepsTheNewestWithinItsSpace) {
  Recording run(rings("4", "1000000", "nothing", {{"HEAPSPY_RING", "2MiB"}}));
  EXPECT_EQ(run.finish().out, "done\n");
  const report::Report report = run.report();
  EXPECT_LE(report.trace.size_bytes, 3 * kMiB);
  EXPECT_EQ(report.trace.lost_events, 0u);
  EXPECT_TRUE(report.trace.damage.empty());
  EXPECT_FALSE(report.trace.ring->whole);
  EXPECT_GT(report.trace.events, 100000u);
  // The last thing that happened is there, and no free of an older block is called unknown.
  EXPECT_EQ(report.totals.unknown_frees, 0u);
  EXPECT_GT(*report.totals.before_ring_frees, 0u);
  EXPECT_GT(thread_named(report, "last").allocations, 10000u);
  EXPECT_GT(*report.trace.ring->from_s, 0.0);
  EXPECT_GE(*report.trace.ring->to_s, *report.trace.ring->from_s);
}

TEST(ModeRing, HoldsTheLastEventsAfterSigkill) {
  Recording run(rings("2", "300000", "kill", {{"HEAPSPY_RING", "1MiB"}}));
  EXPECT_EQ(run.finish().signal, 9);
  const report::Report report = run.report();
  EXPECT_EQ(report.process.end, "killed");
  EXPECT_EQ(report.trace.lost_events, 0u);
  EXPECT_TRUE(report.trace.damage.empty());
  EXPECT_GT(thread_named(report, "last").allocations, 1000u);
  EXPECT_EQ(report.totals.unknown_frees, 0u);
}

TEST(ModeRing, MoreThreadsThanRingsLoseNothingWithoutCountingIt) {
  Recording run(rings("60", "20000", "nothing", {{"HEAPSPY_RING", "1MiB"}}));
  EXPECT_EQ(run.finish().out, "done\n");
  const report::Report report = run.report();
  EXPECT_LE(report.trace.size_bytes, 2 * kMiB);
  EXPECT_TRUE(report.trace.damage.empty());
  EXPECT_EQ(report.totals.unknown_frees, 0u);
}

TEST(Trigger, AnAllocationThatFailsFreezesACopy) {
  Recording run(rings("1", "100", "fail", {{"HEAPSPY_TRIGGER", "fail"}}));
  EXPECT_EQ(run.finish().out, "done\n");
  ASSERT_EQ(copies(run).size(), 1u);
  const report::Report copy = run.report_in(copies(run)[0]);
  EXPECT_EQ(copy.trace.ring->frozen_by, "fail");
  EXPECT_EQ(copy.process.end, "running");
  EXPECT_EQ(copy.totals.failed, 1u);
  EXPECT_EQ(thread_named(copy, "churn-0").allocations, 100u);
  EXPECT_TRUE(copy.trace.damage.empty());
  EXPECT_TRUE(copy.rss.total_bytes.has_value());  // it brings a snapshot
  // Recording goes on.
  EXPECT_GE(thread_named(trace_of(run), "last").allocations, 100u);
}

TEST(Trigger, ASignalFreezesACopyAndStaysFromTheProgram) {
  Recording run(rings("1", "1000000", "signal", {{"HEAPSPY_TRIGGER", "signal=RTMIN+3"}}));
  EXPECT_EQ(run.finish().out, "done\n");  // it would have ended the program
  ASSERT_EQ(copies(run).size(), 1u);
  EXPECT_EQ(run.report_in(copies(run)[0]).trace.ring->frozen_by, "signal");
}

TEST(Trigger, RssFreezesACopyOnceWhileItStaysAbove) {
  Recording run(rings("1", "1000000", "rss", {{"HEAPSPY_TRIGGER", "rss=48MiB"}, {"HEAPSPY_RING", "1MiB"}}));
  EXPECT_EQ(run.finish().out, "done\n");
  ASSERT_EQ(copies(run).size(), 1u);
  const report::Report copy = run.report_in(copies(run)[0]);
  EXPECT_EQ(copy.trace.ring->frozen_by, "rss");
  ASSERT_TRUE(copy.rss.total_bytes.has_value());
  EXPECT_GE(*copy.rss.total_bytes, 48 * kMiB);
}

TEST(Trigger, CgroupFreezesACopyWhenItIsNearlyFull) {
  const MemoryCgroup group;
  if (!group.made() || !group.limit(96 * kMiB)) GTEST_SKIP() << "no cgroup can be made here";
  Launch launch = rings("1", "1000000", "rss", {{"HEAPSPY_TRIGGER", "cgroup=50%"}, {"HEAPSPY_RING", "1MiB"}});
  launch.before_exec = [&] { group.join(); };
  Recording run(launch);
  EXPECT_EQ(run.finish().out, "done\n");
  ASSERT_EQ(copies(run).size(), 1u);
  EXPECT_EQ(run.report_in(copies(run)[0]).trace.ring->frozen_by, "cgroup");
}

TEST(Trigger, WithoutARingIsSaidInOneLineAndRecordingGoesOn) {
  Recording run({.command = {victim("known_counts")}, .environment = {{"HEAPSPY_TRIGGER", "fail"}}});
  EXPECT_EQ(run.finish().err, "heapspy: HEAPSPY_TRIGGER does nothing without HEAPSPY_MODE=ring.\n");
  EXPECT_EQ(run.traces().size(), 1u);
}

TEST(ModeSample, EstimatesLieWithinTheirStandardErrors) {
  const Compared compared = expect_unchanged({.command = {victim("rings"), "4", "300000", "nothing"},
                                              .environment = {{"HEAPSPY_MODE", "sample"}, {"HEAPSPY_SAMPLE", "64KiB"}}});
  const report::Report report = compared.recording->report();
  ASSERT_TRUE(report.totals.standard_error.has_value());
  std::uint64_t bytes = 0;
  for (int i = 0; i < 300000; i++) bytes += 16 + static_cast<unsigned>(i) % 500;
  const double truth = 5.0 * static_cast<double>(bytes) + 12345;  // four threads and main
  const double error = report.totals.standard_error->bytes_allocated;
  EXPECT_GT(error, 0.0);
  EXPECT_LT(error, truth / 20);
  // Six standard errors: once in five hundred million runs.
  EXPECT_LT(std::abs(static_cast<double>(report.totals.bytes_allocated) - truth), 6 * error);
  EXPECT_LT(std::abs(static_cast<double>(report.totals.allocations) - 1500001.0),
            6 * report.totals.standard_error->allocations);
  // Every sampled block's free was seen: nothing lives at the end but what libc keeps.
  EXPECT_EQ(report.totals.unknown_frees, 0u);
  EXPECT_LT(*report.totals.live_bytes, 200000u);
  EXPECT_LT(report.trace.size_bytes, 4 * kMiB);
}

TEST(ModeSample, WithASampleOfOneByteItIsExact) {
  Recording run({.command = {victim("known_counts")}, .environment = {{"HEAPSPY_MODE", "sample"}, {"HEAPSPY_SAMPLE", "1"}}});
  run.finish();
  Recording full({.command = {victim("known_counts")}});
  full.finish();
  const report::Report sampled = run.report(), exact = full.report();
  // A block of 20 bytes is sampled with probability 1 - e^-20; smaller ones may be missing.
  EXPECT_NEAR(static_cast<double>(sampled.totals.bytes_allocated), static_cast<double>(exact.totals.bytes_allocated),
              0.01 * static_cast<double>(exact.totals.bytes_allocated));
  EXPECT_EQ(sampled.totals.unknown_frees, 0u);
}

TEST(ModeCount, CountsWhatModeFullCounts) {
  const Compared compared = expect_unchanged({.command = {victim("known_counts")}, .environment = {{"HEAPSPY_MODE", "count"}}});
  Recording run({.command = {victim("known_counts")}});
  run.finish();
  const report::Report counted = compared.recording->report(), full = run.report();
  EXPECT_EQ(counted.totals.allocations, full.totals.allocations);
  EXPECT_EQ(counted.totals.frees, full.totals.frees);
  EXPECT_EQ(counted.totals.reallocations, full.totals.reallocations);
  EXPECT_EQ(counted.totals.failed, full.totals.failed);
  EXPECT_EQ(counted.totals.bytes_allocated, full.totals.bytes_allocated);
  EXPECT_EQ(counted.totals.calls, full.totals.calls);
  EXPECT_EQ(counted.totals.live_blocks, full.totals.live_blocks);
  EXPECT_EQ(counted.totals.live_bytes, std::nullopt);
  ASSERT_EQ(counted.sizes.size(), full.sizes.size());
  for (std::size_t i = 0; i < full.sizes.size(); i++) {
    EXPECT_EQ(counted.sizes[i].allocations, full.sizes[i].allocations);
    EXPECT_EQ(counted.sizes[i].bytes, full.sizes[i].bytes);
  }
}

TEST(ModeCount, ThreadsThatEndedLongAgoAreSummedUpInConstantSpace) {
  Recording run({.command = {victim("short_threads")}, .environment = {{"HEAPSPY_MODE", "count"}}});
  EXPECT_EQ(run.finish().exit_status, 0);
  Recording full({.command = {victim("short_threads")}});
  full.finish();
  const report::Report counted = run.report();
  EXPECT_EQ(counted.totals.allocations, full.report().totals.allocations);
  EXPECT_EQ(counted.totals.frees, full.report().totals.frees);
  EXPECT_LT(counted.trace.size_bytes, 2 * kMiB);  // 1024 threads' counters take one
}

TEST(ModeOff, WritesNothing) {
  const Compared compared = expect_unchanged({.command = {victim("known_counts")}, .environment = {{"HEAPSPY_MODE", "off"}}});
  EXPECT_TRUE(compared.recording->traces().empty());
}

class EveryMode : public testing::TestWithParam<const char*> {};

TEST_P(EveryMode, RecordsAForkedChildInATraceOfItsOwn) {
  Recording run({.command = {victim("prefork")}, .environment = {{"HEAPSPY_MODE", GetParam()}}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const std::vector<report::Report> reports = run.reports();
  EXPECT_GT(reports.size(), 1u);
  for (const report::Report& report : reports) {
    EXPECT_EQ(report.trace.mode, GetParam());
    EXPECT_EQ(report.trace.lost_events, 0u);
    EXPECT_TRUE(report.trace.damage.empty());
  }
}

TEST_P(EveryMode, LeavesEveryEntryPointAsItIs) {
  expect_unchanged({.command = {victim("edge_cases")}, .environment = {{"HEAPSPY_MODE", GetParam()}}});
  expect_unchanged({.command = {victim("entry_points")}, .environment = {{"HEAPSPY_MODE", GetParam()}}});
  expect_unchanged({.command = {victim("errno_kept")}, .environment = {{"HEAPSPY_MODE", GetParam()}}});
  expect_unchanged({.command = {victim("new_throws")}, .environment = {{"HEAPSPY_MODE", GetParam()}}});
}

INSTANTIATE_TEST_SUITE_P(Modes, EveryMode, testing::Values("full", "ring", "sample", "count"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace heapspy::test
