// Snapshots at a peak and at the end, and malloc_trim asked for from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/report/build.h"
#include "analyzer/trace/chunk_scan.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/trace_file.h"
#include "tests/process/cpu_cgroup.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

using format::SnapshotReason;

std::size_t snapshots_for(const trace::Reader& reader, SnapshotReason reason) {
  std::size_t number = 0;
  for (std::size_t i = 0; i < reader.snapshots(); i++) number += reader.snapshot_reason(i) == reason;
  return number;
}

std::uint64_t sum(const report::RssReport& rss) {
  std::uint64_t bytes = 0;
  for (const report::PartReport& part : rss.parts) bytes += part.bytes;
  return bytes;
}

TEST(Snapshots, OneIsTakenAtTheExitAndItsPartsSumToRss) {
  for (const char* program : {"says", "known_counts", "containers"}) {
    SCOPED_TRACE(program);
    Recording run({.command = {victim(program)}});
    EXPECT_EQ(run.finish().exit_status, 0);
    EXPECT_EQ(snapshots_for(trace::Reader(run.trace()), SnapshotReason::exit), 1u);
    const report::Report report = run.report();
    ASSERT_TRUE(report.rss_at_end.total_bytes.has_value());
    EXPECT_GT(*report.rss_at_end.total_bytes, 500u << 10);
    EXPECT_EQ(sum(report.rss_at_end), *report.rss_at_end.total_bytes);
    ASSERT_TRUE(report.rss.total_bytes.has_value());
    EXPECT_EQ(sum(report.rss), *report.rss.total_bytes);
  }
}

TEST(Snapshots, APeakIsSeenWithin5PerCent) {
  Recording run({.command = {victim("grows_and_shrinks")}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  EXPECT_EQ(report.at.why, "peak");
  ASSERT_TRUE(report.rss.total_bytes.has_value());
  EXPECT_GE(*report.rss.total_bytes, 190'000'000u);
  EXPECT_LE(*report.rss.total_bytes, 260'000'000u);
  EXPECT_EQ(sum(report.rss), *report.rss.total_bytes);
  ASSERT_TRUE(report.rss_at_end.total_bytes.has_value());
  EXPECT_EQ(sum(report.rss_at_end), *report.rss_at_end.total_bytes);
  EXPECT_LT(*report.rss_at_end.total_bytes, *report.rss.total_bytes / 2);
  EXPECT_EQ(report.totals.peak_live_bytes.value() / 1'000'000, 200u);
}

// Full chunks are aligned to their size, and a snapshot between two of them must not leave the rest of it empty.
TEST(Snapshots, KnowTheCpuTimeThatAGroupAboveGrants) {
  const CpuCgroup group(1.5);
  if (!group.made()) GTEST_SKIP() << "no cgroup with a quota of CPU time can be made here";
  Recording run({.command = {victim("grows_and_shrinks")}, .before_exec = [&] { group.join(); }});
  EXPECT_EQ(run.finish().exit_status, 0) << run.finish();
  EXPECT_EQ(run.report().process.cpu_quota, 1.5);
}

TEST(Snapshots, LieWhereTheAlignmentOfFullChunksLeavesRoom) {
  Recording run({.command = {victim("grows_by_events")}, .environment = {{"HEAPSPY_STACKS", "none"}}});
  EXPECT_EQ(run.finish().exit_status, 0);
  EXPECT_GE(trace::Reader(run.trace()).snapshots(), 20u);
  std::uint64_t end = sizeof(format::FileHeader), unused = 0;
  const trace::TraceFile file(run.trace());
  for (const trace::FoundChunk& chunk : trace::scan_chunks(file, end, ~0ull).chunks) {
    const std::uint64_t begin = chunk.payload_at - sizeof(format::ChunkHeader);
    unused += begin - end;
    end = format::align_up(chunk.payload_at + chunk.payload_bytes, format::kChunkAlignment);
  }
  EXPECT_LT(unused, 2u * 65536);
}

TEST(Snapshots, OfTheRecorderItselfStayUnder32MiB) {
  Recording run({.command = {victim("grows_and_shrinks")}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  std::uint64_t largest = 0;
  for (const auto* rss : {&report.rss, &report.rss_at_end})
    for (const report::PartReport& part : rss->parts) {
      if (part.name == "heapspy itself") largest = std::max(largest, part.bytes);
    }
  EXPECT_GT(largest, 0u);
  EXPECT_LE(largest, 32u << 20);
}

Outcome trim(pid_t pid, std::vector<std::string> more = {}) {
  std::vector<std::string> command = {heapspy_program(), "trim", std::to_string(pid)};
  command.insert(command.end(), more.begin(), more.end());
  return Recording({.command = std::move(command), .recorded = false}).finish();
}

void expect_trim(const std::string& mode) {
  Recording run({.command = {victim("holds_trimmable"), mode}, .talks = true});
  ASSERT_EQ(run.read_line(), "ready");
  const Outcome outcome = trim(run.pid(), {"--json", "--timeout", "30"});
  ASSERT_EQ(outcome.exit_status, 0) << outcome;
  EXPECT_EQ(outcome.err, "");
  const nlohmann::json answer = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(answer.at("schema"), "heapspy.trim/1");
  EXPECT_EQ(answer.at("pid"), run.pid());
  EXPECT_EQ(answer.at("method"), "recorder");
  const auto returned = answer.at("returned_bytes").get<double>();
  const auto predicted = answer.at("predicted_bytes").get<double>();
  EXPECT_GE(returned, 90e6);
  EXPECT_LE(returned, 110e6);
  EXPECT_NEAR(predicted, returned, 0.1 * returned);
  EXPECT_EQ(answer.at("rss_before_bytes").get<double>() - answer.at("rss_after_bytes").get<double>(), returned);
  // Once more: it is gone.
  const nlohmann::json again = nlohmann::json::parse(trim(run.pid(), {"--json", "--timeout", "30"}).out);
  EXPECT_LT(again.at("predicted_bytes").get<double>(), 1e6);
  EXPECT_LT(std::fabs(again.at("returned_bytes").get<double>()), 1e6);
  EXPECT_EQ(run.finish().exit_status, 0);
  const trace::Reader reader(run.trace());
  EXPECT_EQ(snapshots_for(reader, SnapshotReason::before_trim), 2u);
  EXPECT_EQ(snapshots_for(reader, SnapshotReason::after_trim), 2u);
  expect_whole(run.report());
}

TEST(Trim, OfAThreadedProgramReturnsWhatWasPredicted) { expect_trim("threaded"); }
TEST(Trim, OfAProgramWhoseOtherThreadNeverAllocatesReturnsWhatWasPredicted) { expect_trim("silent"); }
TEST(Trim, OfASingleThreadThatAllocatesReturnsWhatWasPredicted) { expect_trim("loop"); }

TEST(Trim, OfASingleThreadThatIsIdleGivesUpInTime) {
  Recording run({.command = {victim("holds_trimmable"), "idle"}, .talks = true});
  ASSERT_EQ(run.read_line(), "ready");
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = trim(run.pid(), {"--timeout", "0.3"});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(outcome.exit_status, 4);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err,
              testing::MatchesRegex("heapspy: process [0-9]+ has one thread, which made no allocation within 0\\.3 s[^\n]*\n"));
  EXPECT_LT(took.count(), 30);
  EXPECT_EQ(run.finish().exit_status, 0);
}

TEST(Trim, OfAProgramThatRefusesControlGivesUp) {
  Recording run({.command = {victim("holds_trimmable"), "loop"}, .environment = {{"HEAPSPY_CONTROL", "off"}}, .talks = true});
  ASSERT_EQ(run.read_line(), "ready");
  EXPECT_EQ(trim(run.pid(), {"--timeout", "0.3"}).exit_status, 4);
  EXPECT_EQ(run.finish().exit_status, 0);
  EXPECT_EQ(snapshots_for(trace::Reader(run.trace()), SnapshotReason::before_trim), 0u);
}

TEST(Trim, OfAProgramWithAnotherAllocatorSaysSo) {
  const std::string library = installed_library({"libjemalloc.so.2"});
  if (library.empty()) GTEST_SKIP() << "jemalloc is not installed";
  Recording run({.command = {victim("holds_trimmable"), "loop"}, .preload_beneath = {library}, .talks = true});
  ASSERT_EQ(run.read_line(), "ready");
  const Outcome outcome = trim(run.pid(), {"--timeout", "30"});
  EXPECT_EQ(outcome.exit_status, 4);
  EXPECT_THAT(outcome.err, testing::MatchesRegex("heapspy: process [0-9]+ allocates with jemalloc[^\n]*\n"));
  EXPECT_EQ(run.finish().exit_status, 0);
}

TEST(Trim, OfAProgramWithoutTheRecorderIsDoneByOneOfItsThreads) {
  Recording run({.command = {victim("holds_trimmable"), "loop"}, .recorded = false, .talks = true});
  ASSERT_EQ(run.read_line(), "ready");
  const Outcome outcome = trim(run.pid(), {"--json"});
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["method"], "ptrace");
  EXPECT_EQ(run.finish().exit_status, 0);
}

// madvise refuses locked pages: a figure would be wrong by all of it.
TEST(Trim, OfAProcessThatHasLockedItsMemoryIsNotPredicted) {
  for (const bool recorded : {true, false}) {
    Recording run({.command = {victim("locks_all")}, .recorded = recorded, .talks = true});
    if (run.read_line() != "ready") GTEST_SKIP() << "this process may not lock its memory";
    const Outcome outcome = trim(run.pid(), {"--json"});
    EXPECT_EQ(outcome.exit_status, 0) << outcome;
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["predicted_bytes"], nullptr);
    run.write_line("");
    EXPECT_EQ(run.finish().exit_status, 0);
  }
}

}  // namespace
}  // namespace heapspy::test
