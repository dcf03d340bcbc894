// `heapspy record` beside the program: what it takes from the rings, and what happens when it, or the program, is stopped or
// killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include "analyzer/trace/chunk_scan.h"
#include "analyzer/trace/pack.h"
#include "tests/process/counted_calls.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

using format::ChunkKind;

Launch under_record(const std::vector<std::string>& command, const std::vector<std::string>& flags = {}) {
  Launch launch;
  launch.command = {heapspy_program(), "record"};
  launch.command.insert(launch.command.end(), flags.begin(), flags.end());
  launch.command.insert(launch.command.end(), command.begin(), command.end());
  launch.recorded = false;
  launch.environment = {{"HEAPSPY_OUT", "@/traces/"}};
  return launch;
}

std::set<ChunkKind> kinds_in(const std::string& path) {
  const trace::TraceFile file(path);
  std::set<ChunkKind> kinds;
  for (const trace::FoundChunk& chunk : trace::scan_chunks(file, sizeof(format::FileHeader), ~0ull).chunks)
    kinds.insert(chunk.kind);
  return kinds;
}

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

pid_t recorded_process(const Recording& run) {
  for (const std::string& path : run.traces())
    if (const auto pid = trace::Reader(path).header().pid) return static_cast<pid_t>(pid);
  ADD_FAILURE() << "no trace";
  return -1;
}

// A process that is nobody's child here may stay a zombie for long; its trace it lets go of when it dies.
void wait_until_gone(const Recording& run) {
  while (trace::is_being_written(run.trace())) sched_yield();
}

TEST(Collector, LeavesAPackedTraceOfTheSameEvents) {
  Recording run(under_record({victim("short_threads")}));
  EXPECT_EQ(run.finish().exit_status, 0) << run.finish();
  const report::Report report = run.report();
  expect_whole(report);
  EXPECT_GE(report.totals.allocations, 10000u);
  EXPECT_EQ(report.threads.size(), 10001u);
  EXPECT_THAT(kinds_in(run.trace()), testing::IsSubsetOf({ChunkKind::process, ChunkKind::packed, ChunkKind::packed_stacks,
                                                          ChunkKind::packed_counters, ChunkKind::events, ChunkKind::snapshot}));
  EXPECT_EQ(files_in(run.folder() + "/traces"), 1u);
}

TEST(Collector, IsNotThereWhereItIsNotWanted) {
  Recording run(under_record({victim("known_counts")}, {"--no-collector"}));
  EXPECT_EQ(run.finish().exit_status, 0) << run.finish();
  EXPECT_EQ(kinds_in(run.trace()).count(ChunkKind::packed), 0u);
  expect_whole(run.report());
}

// A thread says with each chunk how many records it wrote; the collector does not count them.
bool took_something(const std::string& path) {
  const trace::TraceFile file(path);
  for (const trace::FoundChunk& chunk : trace::scan_chunks(file, sizeof(format::FileHeader), ~0ull).chunks)
    if ((chunk.kind == ChunkKind::events || chunk.kind == ChunkKind::packed) && chunk.records == 0) return true;
  return false;
}

TEST(Collector, TakesFromRingsWhoseOwnersAppendTheFirstChunksThemselves) {
  Recording run(under_record({victim("counts_while_it_works")}));
  const CountedCalls calls(run);
  const pid_t program = recorded_process(run);
  bool took = false;
  for (const std::uint64_t until = calls.all() + 20'000'000; !took && calls.all() < until;) took = took_something(run.trace());
  EXPECT_TRUE(took);
  kill(program, SIGKILL);
  EXPECT_EQ(run.finish().exit_status, 128 + SIGKILL);
}

TEST(Collector, LosesNoEventWhenTheProgramIsKilled) {
  std::mt19937_64 random(20261130);
  for (int i = 0; i < 5; i++) {
    SCOPED_TRACE(i);
    Recording run(under_record({victim("counts_while_it_works")}));
    const CountedCalls calls(run);
    calls.wait_for(random() % 300000);
    kill(recorded_process(run), SIGKILL);
    EXPECT_EQ(run.finish().exit_status, 128 + SIGKILL) << run.finish();
    const report::Report report = run.report();
    EXPECT_EQ(report.process.end, "killed");
    calls.expect_in(report);
    EXPECT_EQ(kinds_in(run.trace()).count(ChunkKind::staging), 0u);
  }
}

TEST(Collector, LosesNoEventWhenItIsKilledWithTheProgram) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 8; i++) {
    SCOPED_TRACE(i);
    Recording run(under_record({victim("counts_while_it_works")}));
    const CountedCalls calls(run);
    calls.wait_for(random() % 300000);
    kill(-run.pid(), SIGKILL);
    EXPECT_EQ(run.finish().signal, SIGKILL);
    wait_until_gone(run);
    calls.expect_in(run.report());
  }
}

TEST(Collector, StoppedLeavesThreadsToEmptyTheirOwnRings) {
  Recording run(under_record({victim("counts_while_it_works")}));
  const CountedCalls calls(run);
  calls.wait_for(20000);
  kill(run.pid(), SIGSTOP);
  calls.wait_for(200000);  // many rings full
  kill(recorded_process(run), SIGKILL);
  kill(run.pid(), SIGCONT);
  EXPECT_EQ(run.finish().exit_status, 128 + SIGKILL);
  calls.expect_in(run.report());
}

TEST(Collector, KilledLeavesTheProgramRecording) {
  for (const std::uint64_t before : {0, 1000, 50000, 150000}) {
    Recording run(under_record({victim("counts_while_it_works")}));
    const CountedCalls calls(run);
    calls.wait_for(before);
    const pid_t program = recorded_process(run);
    kill(run.pid(), SIGKILL);
    EXPECT_EQ(run.finish().signal, SIGKILL);
    calls.wait_for(100000);
    kill(program, SIGKILL);
    wait_until_gone(run);
    calls.expect_in(run.report());
  }
}

TEST(Collector, PacksTheTraceOfEveryProcessOfAFamily) {
  Recording run(under_record({"/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true & done; wait; exec /bin/true"}));
  EXPECT_EQ(run.finish().exit_status, 0) << run.finish();
  const std::vector<std::string> traces = run.traces();
  EXPECT_GE(traces.size(), 12u);  // the shell before and after its exec, and ten others, some of them shells first
  EXPECT_EQ(files_in(run.folder() + "/traces"), traces.size());
  for (const std::string& path : traces) {
    EXPECT_EQ(kinds_in(path).count(ChunkKind::staging), 0u) << path;
    expect_whole(run.report_in("traces/" + std::filesystem::path(path).filename().string()));
  }
}

}  // namespace
}  // namespace heapspy::test
