// One report over several traces: sums, families of forked processes, files that are no traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <sstream>

#include "analyzer/report/merged_build.h"
#include "analyzer/report/merged_json.h"
#include "analyzer/report/merged_text.h"
#include "analyzer/trace/reader.h"
#include "tests/support/trace_builder.h"

namespace heapspy::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kMs = 1'000'000;  // ticks are nanoseconds
constexpr std::uint64_t kStart = 1'700'000'000'000'000'000;

// A trace that begins `at` nanoseconds after the first one.
void begin(test::TraceBuilder& trace, std::uint32_t pid, std::uint64_t at) {
  trace.header().pid = pid;
  trace.header().start_realtime_ns = kStart + at;
  trace.header().origin = 5'000'000'000 + at;
  trace.header().pairs[0] = {0, trace.header().origin};
  trace.header().end_tick = 100 * kMs;
  trace.process(format::ProcessTag::exe, "/usr/bin/app").process(format::ProcessTag::allocator, "glibc");
}
void begin_child(test::TraceBuilder& trace, std::uint32_t pid, std::uint64_t at, std::uint32_t parent,
                 std::uint64_t parent_at) {
  begin(trace, pid, at);
  trace.header().ppid = parent;
  trace.header().forked = 1;
  trace.header().parent_start_realtime_ns = kStart + parent_at;
}

class Merged : public testing::Test {
 protected:
  const std::string& file(const test::TraceBuilder& trace) { return file(trace.bytes()); }
  const std::string& file(const std::string& bytes) {
    files_.emplace_back(bytes);
    paths.push_back(files_.back().path());
    return paths.back();
  }
  std::vector<std::string> paths;

 private:
  std::deque<test::TemporaryFile> files_;
};

const InheritedReport& inherited(const MergedReport& merged, std::uint32_t pid) {
  for (const ProcessRow& row : merged.processes)
    if (row.pid == pid && row.inherited) return *row.inherited;
  ADD_FAILURE() << "no process " << pid << " with a parent";
  static const InheritedReport none;
  return none;
}

TEST_F(Merged, SumsWhatTheProcessesDid) {
  test::TraceBuilder one, two;
  begin(one, 10, 0);
  begin(two, 20, 50 * kMs);
  one.thread("worker", 10).stamp(kMs).malloc(0x1000, 100).malloc(0x2000, 200).free(0x1000);
  auto& thread = two.thread("worker", 20);
  thread.stamp(kMs).malloc(0x1000, 40).free(0x1000).free(0x7000);
  two.thread("other", 21).stamp(kMs).calloc(0x9000, 8);
  file(two);
  file(one);
  const MergedReport merged = build_merged(paths, "both");
  EXPECT_EQ(merged.path, "both");
  ASSERT_EQ(merged.processes.size(), 2u);
  EXPECT_EQ(merged.processes[0].pid, 10u);  // by start, however they were given
  EXPECT_EQ(merged.processes[0].totals.live_bytes, 200u);
  EXPECT_EQ(merged.processes[0].totals.peak_live_bytes, 300u);
  EXPECT_EQ(merged.processes[1].totals.unknown_frees, 1u);
  EXPECT_EQ(merged.trace.events, 7u);
  EXPECT_EQ(merged.totals.allocations, 4u);
  EXPECT_EQ(merged.totals.frees, 3u);
  EXPECT_EQ(merged.totals.bytes_allocated, 348u);
  EXPECT_EQ(merged.totals.live_bytes, 208u);
  EXPECT_EQ(merged.totals.live_blocks, 2u);
  EXPECT_EQ(merged.totals.peak_live_bytes, std::nullopt);
  EXPECT_NEAR(merged.duration_s.value(), 0.15, 1e-9);
  ASSERT_EQ(merged.threads.size(), 2u);
  EXPECT_EQ(merged.threads[0].name, "worker");
  EXPECT_EQ(merged.threads[0].processes, 2u);
  EXPECT_EQ(merged.threads[0].threads, 2u);
  EXPECT_EQ(merged.threads[0].bytes_allocated, 340u);
  EXPECT_EQ(merged.threads[1].name, "other");
  std::uint64_t allocations = 0, live = 0;
  for (const SizeReport& size : merged.sizes) allocations += size.allocations, live += size.live_bytes.value();
  EXPECT_EQ(allocations, 4u);
  EXPECT_EQ(live, 208u);
}

TEST_F(Merged, ChildrenKnowTheBlocksOfTheirParent) {
  test::TraceBuilder parent;
  begin(parent, 10, 0);
  auto& main = parent.thread("main", 10);
  main.stamp(kMs);
  for (std::uint64_t i = 0; i < 8; i++) main.malloc(0x1000 + 0x100 * i, 10 + i);
  main.stamp_off_cpu(90 * kMs);
  for (std::uint64_t i = 0; i < 8; i++) main.free(0x1000 + 0x100 * i);  // its own, after the children
  for (std::uint32_t child = 0; child < 4; child++) {
    test::TraceBuilder trace;
    begin_child(trace, 20 + child, (10 + child) * kMs, 10, 0);
    auto& thread = trace.thread("main", 20 + child, 5 * kMs);
    thread.free(0x1000).operator_delete(0x1100).realloc(0x1200, 0x1200, 500).realloc(0x1300, 0x8000, 600);
    thread.free(0x8000).malloc(0x1000, 7).free(0x1000);
    file(trace);
  }
  file(parent);
  const MergedReport merged = build_merged(paths, "family");
  EXPECT_EQ(merged.totals.unknown_frees, 0u);
  EXPECT_EQ(merged.totals.inherited_frees, 8u);
  for (std::uint32_t pid = 20; pid < 24; pid++) {
    SCOPED_TRACE(pid);
    const InheritedReport& had = inherited(merged, pid);
    EXPECT_EQ(had.blocks_at_fork, 8u);
    EXPECT_EQ(had.bytes_at_fork, 108u);
    EXPECT_EQ(had.frees, 2u);
    EXPECT_EQ(had.bytes_freed, 21u);
    EXPECT_EQ(had.reallocations, 2u);
    EXPECT_EQ(had.unmatched_frees, 0u);
    EXPECT_EQ(had.live_blocks, 4u);
    EXPECT_EQ(had.live_bytes, 108u - 10 - 11 - 12 - 13);
    ASSERT_EQ(had.threads.size(), 1u);
    EXPECT_EQ(had.threads[0].pid, 10u);
    EXPECT_EQ(had.threads[0].name, "main");
    EXPECT_EQ(had.threads[0].frees, 2u);
  }
  const ProcessRow& child = merged.processes[1];
  EXPECT_EQ(child.parent_pid, 10u);
  EXPECT_EQ(child.totals.live_bytes, 500u);  // its own only
  EXPECT_EQ(child.totals.live_blocks, 1u);
  // An age counts from the parent's allocation: 10 ms and more before the fork, 5 ms and more after it.
  std::uint64_t long_lives = 0;
  for (const LifetimeReport& life : merged.lifetimes)
    if (life.from_s > 0.009) long_lives += life.blocks;
  EXPECT_EQ(long_lives, 4u * 2 + 8);
}

TEST_F(Merged, WhatTheParentFreesBeforeAChildIsHeardOfWasTheChildsToo) {
  test::TraceBuilder parent, child;
  begin(parent, 10, 0);
  // The child is forked at 2 ms, and its first event comes at 4 ms.
  parent.thread("main", 10)
      .stamp(kMs)
      .malloc(0x1000, 10)
      .malloc(0x2000, 20)
      .stamp_off_cpu(3 * kMs)
      .free(0x1000)
      .stamp(30 * kMs);
  begin_child(child, 20, 4 * kMs, 10, 0);
  child.thread("main", 20).stamp(kMs).free(0x1000).free(0x2000);
  file(parent);
  file(child);
  const MergedReport merged = build_merged(paths, "family");
  EXPECT_EQ(merged.totals.unknown_frees, 0u);
  const InheritedReport& had = inherited(merged, 20);
  EXPECT_EQ(had.frees, 2u);
  EXPECT_EQ(had.bytes_freed, 30u);
  EXPECT_EQ(had.blocks_at_fork, 2u);
  EXPECT_EQ(had.live_blocks, 0u);
}

TEST_F(Merged, AChildMayUseAnAddressThatTheParentGaveBackJustBefore) {
  test::TraceBuilder parent, child;
  begin(parent, 10, 0);
  auto& main = parent.thread("main", 10);
  main.stamp(kMs).malloc(0x1000, 10).malloc(0x2000, 20);
  main.stamp_off_cpu(9 * kMs).free(0x1000);  // told after the child's first event, for clocks are coarse
  begin_child(child, 20, 5 * kMs, 10, 0);
  child.thread("main", 20).stamp(kMs).malloc(0x1000, 30).free(0x1000).free(0x2000);
  file(parent);
  file(child);
  const MergedReport merged = build_merged(paths, "family");
  EXPECT_EQ(merged.totals.unknown_frees, 0u);
  const InheritedReport& had = inherited(merged, 20);
  EXPECT_EQ(had.frees, 1u);
  EXPECT_EQ(had.live_blocks, 0u);
  EXPECT_EQ(merged.processes[1].totals.live_bytes, 0u);
}

TEST_F(Merged, GrandchildrenKnowTheBlocksOfTheirGrandparent) {
  test::TraceBuilder grandparent, parent, child;
  begin(grandparent, 10, 0);
  grandparent.thread("old", 10).stamp(kMs).malloc(0x1000, 10).malloc(0x2000, 20).malloc(0x3000, 30);
  begin_child(parent, 20, 10 * kMs, 10, 0);
  parent.thread("middle", 20).stamp(kMs).free(0x1000).malloc(0x4000, 40).malloc(0x5000, 50);
  begin_child(child, 30, 30 * kMs, 20, 10 * kMs);
  child.thread("young", 30).stamp(kMs).free(0x2000).free(0x4000);
  file(child);
  file(parent);
  file(grandparent);
  const MergedReport merged = build_merged(paths, "family");
  EXPECT_EQ(merged.totals.unknown_frees, 0u);
  const InheritedReport& had = inherited(merged, 30);
  EXPECT_EQ(had.blocks_at_fork, 4u);  // 0x2000 and 0x3000 of the grandparent, 0x4000 and 0x5000
  EXPECT_EQ(had.bytes_at_fork, 140u);
  EXPECT_EQ(had.live_bytes, 80u);
  ASSERT_EQ(had.threads.size(), 2u);
  EXPECT_EQ(had.threads[0].pid, 20u);
  EXPECT_EQ(had.threads[0].name, "middle");
  EXPECT_EQ(had.threads[1].pid, 10u);
  EXPECT_EQ(had.threads[1].name, "old");
  EXPECT_EQ(inherited(merged, 20).live_blocks, 2u);
}

TEST_F(Merged, WithoutTheParentsTraceFreesOfItsBlocksAreCounted) {
  test::TraceBuilder child, stranger;
  begin_child(child, 20, 10 * kMs, 10, 3);
  child.thread("main", 20).stamp(kMs).free(0x1000).free(0x2000);
  begin(stranger, 30, 0);
  stranger.thread("main", 30).stamp(kMs).malloc(0x1000, 10);
  file(child);
  file(stranger);
  const MergedReport merged = build_merged(paths, "two");
  EXPECT_EQ(merged.totals.inherited_frees, 2u);
  EXPECT_EQ(merged.totals.unknown_frees, 0u);
  EXPECT_EQ(merged.processes[1].inherited, std::nullopt);
  EXPECT_EQ(merged.processes[1].parent_pid, std::nullopt);
}

TEST_F(Merged, AFileThatIsNoTraceIsListedAndTheOthersAreRead) {
  test::TraceBuilder trace, cut;
  begin(trace, 10, 0);
  trace.thread("main", 10).stamp(kMs).malloc(0x1000, 10);
  begin(cut, 20, 5);
  cut.thread("main", 20).stamp(kMs).malloc(0x1000, 10).malloc(0x2000, 10);
  file(trace);
  const std::string foreign = file("not a trace");
  std::string bytes = cut.bytes();
  bytes.resize(bytes.size() - 24);
  const std::string damaged = file(bytes);
  const MergedReport merged = build_merged(paths, "three");
  EXPECT_EQ(merged.processes.size(), 2u);
  ASSERT_EQ(merged.unreadable.size(), 1u);
  EXPECT_EQ(merged.unreadable[0].trace, foreign);
  EXPECT_EQ(merged.unreadable[0].reason, "not a heapspy trace");
  ASSERT_EQ(merged.damaged.size(), 1u);
  EXPECT_EQ(merged.damaged[0].trace, damaged);
  EXPECT_FALSE(merged.trace.complete);
}

TEST_F(Merged, NoneThatCanBeReadIsUnreadable) {
  file("not a trace");
  file("");
  EXPECT_THROW(build_merged(paths, "two"), trace::Unreadable);
}

TEST_F(Merged, AFrozenCopyIsNotAProcessOfItsOwn) {
  test::TraceBuilder ring, copy;
  for (test::TraceBuilder* trace : {&ring, &copy}) {
    begin(*trace, 10, 0);
    trace->header().mode = format::Mode::ring;
    trace->thread("main", 10).stamp(kMs).malloc(0x1000, 10);
  }
  copy.header().frozen_by = format::Trigger::rss;
  const std::string frozen = file(copy);
  file(ring);
  const MergedReport merged = build_merged(paths, "ring");
  EXPECT_EQ(merged.processes.size(), 1u);
  EXPECT_EQ(merged.totals.allocations, 1u);
  ASSERT_EQ(merged.copies.size(), 1u);
  EXPECT_EQ(merged.copies[0].trace, frozen);
  EXPECT_THAT(merged.copies[0].reason, HasSubstr("frozen from the rings of"));
}

TEST_F(Merged, ErrorsOfSamplesAddUpAsIndependentOnesDo) {
  for (std::uint32_t i = 0; i < 4; i++) {
    test::TraceBuilder trace;
    begin(trace, 10 + i, i);
    trace.header().mode = format::Mode::sample;
    trace.header().sample_bytes = 1000;
    trace.thread("main", 10 + i).stamp(kMs).malloc(0x1000, 100);
    file(trace);
  }
  const MergedReport merged = build_merged(paths, "samples");
  ASSERT_TRUE(merged.totals.standard_error);
  EXPECT_NEAR(merged.totals.standard_error->live_bytes, 2 * merged.processes[0].totals.standard_error->live_bytes, 1e-6);
  EXPECT_EQ(merged.trace.mode, "sample");
}

TEST_F(Merged, JsonHasTheKeysOfOneTraceAndTheProcesses) {
  test::TraceBuilder one, two;
  begin(one, 10, 0);
  begin(two, 20, 50 * kMs);
  one.thread("main", 10).stamp(kMs).malloc(0x1000, 100);
  two.thread("main", 20).stamp(kMs).malloc(0x1000, 40);
  file(one);
  file(two);
  const auto json = merged_json(build_merged(paths, "both"));
  EXPECT_EQ(json["schema"], "heapspy.report/1");
  EXPECT_EQ(json["trace"]["path"], "both");
  EXPECT_TRUE(json["process"]["pid"].is_null());
  EXPECT_EQ(json["totals"]["live_bytes"], 140);
  EXPECT_TRUE(json["totals"]["peak_live_bytes"].is_null());
  for (const char* null : {"at", "arenas", "timeline"}) EXPECT_TRUE(json[null].is_null()) << null;
  ASSERT_EQ(json["processes"].size(), 2u);
  EXPECT_EQ(json["processes"][1]["pid"], 20);
  EXPECT_EQ(json["processes"][1]["peak_live_bytes"], 40);
  EXPECT_TRUE(json["processes"][1]["peak_rss_bytes"].is_null());
  EXPECT_TRUE(json["processes"][1]["shared_bytes"].is_null());
  EXPECT_EQ(json["threads"][0]["processes"], 2);
}

TEST_F(Merged, TextNamesTheLargestProcessesAndTheSums) {
  for (std::uint32_t i = 1; i <= 12; i++) {
    test::TraceBuilder trace;
    begin(trace, i, i * kMs);
    trace.thread("main", i).stamp(kMs).malloc(0x1000, 1000 * i);
    file(trace);
  }
  const std::vector<std::string> lines = merged_text(build_merged(paths, "folder"), {});
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
    EXPECT_LE(line.size(), 120u);
  }
  EXPECT_THAT(text, HasSubstr("12 processes"));
  EXPECT_THAT(text, HasSubstr("Processes (8 of 12)"));
  EXPECT_THAT(text, HasSubstr("  12 app"));
  EXPECT_EQ(text.find("  4 app"), std::string::npos);  // the eight largest are 12 to 5
  EXPECT_THAT(text, HasSubstr("Threads by name (1)"));
}

// A parent with many blocks and many children: each child's trace is asked for what it touches, no copy is made for it.
TEST_F(Merged, ReadsEachTraceOnceAndKeepsNoCopyOfTheParentsBlocks) {
  constexpr std::uint64_t kBlocks = 20'000;
  constexpr std::uint32_t kChildren = 200;
  test::TraceBuilder parent;
  begin(parent, 10, 0);
  auto& main = parent.thread("main", 10);
  for (std::uint64_t i = 0; i < kBlocks; i++) {
    if (i % 32 == 0) main.stamp(kMs + i);
    main.malloc(0x100000 + 0x20 * i, 16);
  }
  file(parent);
  for (std::uint32_t child = 0; child < kChildren; child++) {
    test::TraceBuilder trace;
    begin_child(trace, 20 + child, (10 + child) * kMs, 10, 0);
    trace.thread("main", 20 + child).stamp(kMs).free(0x100000 + 0x20 * child);
    file(trace);
  }
  int told = 0;
  MergeOptions options;
  options.progress = [&](double) { told++; };
  const MergedReport merged = build_merged(paths, "family", options);
  EXPECT_EQ(told, static_cast<int>(kChildren) + 1);
  EXPECT_EQ(merged.processes.size(), kChildren + 1);
  EXPECT_EQ(merged.totals.inherited_frees, kChildren);
  EXPECT_EQ(merged.totals.unknown_frees, 0u);
  for (std::uint32_t pid = 20; pid < 20 + kChildren; pid++) EXPECT_EQ(inherited(merged, pid).live_blocks, kBlocks - 1);
}

}  // namespace
}  // namespace heapspy::report
