// Processes that fork, spawn and execute.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "analyzer/report/build.h"
#include "analyzer/report/merged_build.h"
#include "heapspy/format/layout.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

format::FileHeader header_of(const report::Report& report) {
  format::FileHeader header{};
  std::ifstream(report.trace.path, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
  return header;
}

bool says(const report::Report& report) { return report.process.exe == victim("says"); }

void expect_says(const report::Report& report) {
  const report::ThreadReport thread = thread_named(report, "t-says");
  EXPECT_EQ(thread.allocations, 10u);
  EXPECT_EQ(thread.frees, 9u);
  expect_whole(report);
}

TEST(Children, ForkedWhileEightThreadsAllocateWriteTracesOfTheirOwn) {
  Recording run({.command = {victim("fork_storm"), victim("says")}, .limit_s = 90});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  EXPECT_EQ(outcome.err, "");
  std::vector<std::uint32_t> pids;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);)
    if (line != "hello") pids.push_back(static_cast<std::uint32_t>(std::stoul(line)));
  std::sort(pids.begin(), pids.end());
  EXPECT_EQ(pids.size(), 300u);

  std::vector<std::uint32_t> forked, executed;
  for (const report::Report& report : run.reports()) {
    SCOPED_TRACE(report.process.pid);
    expect_whole(report);
    const auto pid = report.process.pid;
    if (pid == static_cast<std::uint32_t>(run.pid())) {  // the parent's: nothing of a child in it
      EXPECT_FALSE(report.process.forked);
      EXPECT_EQ(report.process.end, "exit");
      EXPECT_EQ(report.totals.unknown_frees, 0u);
      EXPECT_EQ(report.totals.inherited_frees, 0u);
      int threads = 0;
      for (const report::ThreadReport& thread : report.threads) {
        if (thread.name != "t-storm") continue;
        threads++;
        EXPECT_EQ(thread.allocations, 600000u);
        EXPECT_EQ(thread.frees, 600000u);
      }
      EXPECT_EQ(threads, 8);
    } else if (says(report)) {
      executed.push_back(pid);
      expect_says(report);
    } else {
      forked.push_back(pid);
      EXPECT_TRUE(report.process.forked);
      EXPECT_EQ(header_of(report).control.listeners, 0u) << "it has one thread, and needs no helper";
      EXPECT_EQ(report.process.ppid, static_cast<std::uint32_t>(run.pid()));
      EXPECT_EQ(report.totals.unknown_frees, 0u);
      ASSERT_EQ(report.threads.size(), 1u);
      EXPECT_EQ(report.totals.frees - report.totals.inherited_frees.value(), 4u);
      EXPECT_GE(report.totals.allocations, 10u);  // and what setenv makes
      EXPECT_LE(report.totals.allocations, 14u);
      EXPECT_TRUE(report.process.end == "exit" || report.process.end == "exec") << report.process.end;
    }
  }
  std::sort(forked.begin(), forked.end());
  std::sort(executed.begin(), executed.end());
  EXPECT_EQ(forked, pids);
  EXPECT_EQ(executed.size(), 100u);
  EXPECT_TRUE(std::includes(pids.begin(), pids.end(), executed.begin(), executed.end()));
}

TEST(Children, OfAPreforkServerFreeWhatTheyInherited) {
  Recording run({.command = {victim("prefork")}});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  const report::Report parent = run.report_of(run.pid());
  EXPECT_GE(parent.totals.allocations, 1000u);
  EXPECT_EQ(parent.totals.frees, 0u);
  EXPECT_EQ(parent.totals.reallocations, 0u);
  std::istringstream pids(outcome.out);
  int children = 0;
  for (pid_t pid; pids >> pid; children++) {
    SCOPED_TRACE(pid);
    const report::Report child = run.report_of(pid);
    expect_whole(child);
    EXPECT_TRUE(child.process.forked);
    EXPECT_EQ(child.totals.unknown_frees, 0u);
    EXPECT_EQ(child.totals.inherited_frees, 400u);
    EXPECT_EQ(child.totals.frees, 420u);
    EXPECT_EQ(child.totals.reallocations, 50u);
    EXPECT_EQ(child.totals.allocations, 60u);
    EXPECT_EQ(child.process.end, "exit");
  }
  EXPECT_EQ(children, 4);

  // With the parent's trace at hand it is known what they were.
  const report::MergedReport family = report::build_merged(run.traces(), "family");
  ASSERT_EQ(family.processes.size(), 5u);
  EXPECT_EQ(family.totals.unknown_frees, 0u);
  EXPECT_EQ(family.totals.inherited_frees, 1600u);
  for (std::size_t i = 1; i < family.processes.size(); i++) {
    SCOPED_TRACE(family.processes[i].pid);
    EXPECT_EQ(family.processes[i].parent_pid, static_cast<std::uint32_t>(run.pid()));
    ASSERT_TRUE(family.processes[i].inherited);
    const report::InheritedReport& inherited = *family.processes[i].inherited;
    EXPECT_EQ(inherited.frees, 400u);
    EXPECT_EQ(inherited.bytes_freed, 400u * 200);
    EXPECT_EQ(inherited.reallocations, 50u);
    EXPECT_EQ(inherited.unmatched_frees, 0u);
    EXPECT_EQ(inherited.blocks_at_fork - inherited.live_blocks, 450u);
    EXPECT_EQ(inherited.bytes_at_fork - inherited.live_bytes, 450u * 200);
    EXPECT_GE(inherited.live_bytes, 550u * 200);
    ASSERT_EQ(inherited.threads.size(), 1u);
    EXPECT_EQ(inherited.threads[0].pid, static_cast<std::uint32_t>(run.pid()));
    EXPECT_EQ(inherited.threads[0].name, "prefork");
  }
}

TEST(Children, WriteTracesOfTheirOwnHoweverTheyCame) {
  Recording run({.command = {victim("forks_rawly")}});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  const report::Report parent = run.report_of(run.pid());
  expect_whole(parent);
  EXPECT_EQ(thread_named(parent, "t-parent").allocations, 20u);
  EXPECT_EQ(parent.totals.frees, 0u);
  std::istringstream pids(outcome.out);
  int children = 0;
  for (pid_t pid; pids >> pid; children++) {
    SCOPED_TRACE(children);
    const report::Report child = run.report_of(pid);
    expect_whole(child);
    EXPECT_EQ(child.totals.allocations, 10u);
    EXPECT_EQ(child.totals.frees, 15u);
    EXPECT_EQ(child.totals.inherited_frees, 5u);
    EXPECT_EQ(child.totals.unknown_frees, 0u);
  }
  EXPECT_EQ(children, 3);
}

TEST(Children, AreNotFollowedWhenToldNotTo) {
  Recording run({.command = {victim("prefork")}, .environment = {{"HEAPSPY_CHILDREN", "none"}}});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(static_cast<pid_t>(run.report().process.pid), run.pid());
}

TEST(Children, OfVforkAndPosixSpawnWriteNothing) {
  Recording run({.command = {victim("spawns"), installed("true")}});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  const report::Report report = run.report();
  expect_whole(report);
  EXPECT_EQ(static_cast<pid_t>(report.process.pid), run.pid());
  EXPECT_EQ(report.process.end, "exit");
  const report::ThreadReport thread = thread_named(report, "t-spawns");
  EXPECT_EQ(thread.allocations, 300u);
  EXPECT_EQ(thread.frees, 300u);
  EXPECT_TRUE(thread.end_s.has_value());
}

TEST(Children, OfAJvmThroughItsLauncherAreRecordedAndTheJvmIsUnchanged) {
  if (installed("java").empty() || installed("javac").empty()) GTEST_SKIP() << "no JDK is installed";
  const Compared compared = expect_unchanged(
      {.command = {installed("java"), "-Xmx64m", "-XX:+UseSerialGC", victim_source("Spawns.java"), victim("says")},
       .limit_s = 90});
  EXPECT_TRUE(compared.plain.out.ends_with("0 child 11\ndone\n")) << compared.plain;
  int children = 0;
  for (const report::Report& report : compared.recording->reports()) {
    SCOPED_TRACE(report.process.exe);
    expect_whole(report);
    EXPECT_EQ(report.totals.unknown_frees, 0u);
    if (says(report)) {
      children++;
      expect_says(report);
    } else if (static_cast<pid_t>(report.process.pid) == compared.recording->pid()) {
      std::uint64_t deflating = 0;
      for (const report::ThreadReport& thread : report.threads) deflating += thread.name.starts_with("deflating-threa");
      EXPECT_EQ(deflating, 8u);
    }
  }
  EXPECT_EQ(children, 12);
}

TEST(Children, EveryLinkOfAnExecChainHasItsTrace) {
  Recording run({.command = {victim("execs_itself"), "40"}});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.out, "over\n");
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.exit_status, 0);
  const std::vector<report::Report> reports = run.reports();
  EXPECT_EQ(reports.size(), 41u);
  int executed = 0;
  for (const report::Report& report : reports) {
    expect_whole(report);
    EXPECT_EQ(static_cast<pid_t>(report.process.pid), run.pid());
    const bool last = report.process.end == "exit";
    EXPECT_EQ(report.process.end, last ? "exit" : "exec");
    executed += !last;
    // The sixth comes after an exec that failed; the last one has stdout's buffer.
    EXPECT_EQ(report.totals.allocations, 6u);
    EXPECT_EQ(report.totals.live_blocks, last ? 6u : 5u);
  }
  EXPECT_EQ(executed, 40);
}

TEST(Children, OfAShellAreRecordedUntilOneGetsNoEnvironment) {
  const std::string program = victim("says");
  Recording run({.command = {"sh", "-c", program + " one; env -i " + program + " two; " + program + " three"}});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.out, "one\ntwo\nthree\n");
  EXPECT_EQ(outcome.err, "");
  int recorded = 0;
  for (const report::Report& report : run.reports()) {
    expect_whole(report);
    if (!says(report)) continue;
    recorded++;
    expect_says(report);
    EXPECT_NE(report.process.command, (std::vector<std::string>{program, "two"}));
  }
  EXPECT_EQ(recorded, 2);
}

TEST(Children, OfAnotherUserByTheFilesModeAreUnchanged) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const auto copy = [] {
    std::filesystem::copy_file(victim("says"), "says");
    if (chown("says", 65534, 65534) || chmod("says", 04755)) throw std::runtime_error("chmod");
  };
  const Compared compared = expect_unchanged({.command = {"sh", "-c", "./says hello"}, .in_folder = copy});
  EXPECT_EQ(compared.plain.out, "hello\n");
}

}  // namespace
}  // namespace heapspy::test
