// A report from a trace made by hand: what is counted, and what stays unknown without a snapshot.
#include "analyzer/report/build.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/amounts.h"
#include "tests/support/trace_builder.h"

namespace heapspy::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using test::kMiB;

std::string nul_separated(std::initializer_list<const char*> words) {
  std::string text;
  for (const char* word : words) text.append(word).push_back('\0');
  return text;
}

// Ticks are nanoseconds.
test::TraceBuilder two_threads() {
  test::TraceBuilder trace;
  trace.header().pid = 4242;
  trace.header().ppid = 4200;
  trace.header().end = static_cast<std::uint32_t>(format::End::exit);
  trace.header().end_tick = 3'000'000'000;
  trace.header().start_realtime_ns = 1'767'323'045'000'000'006;
  trace.process(format::ProcessTag::exe, "/usr/bin/app")
      .process(format::ProcessTag::command, nul_separated({"app", "--now"}))
      .process(format::ProcessTag::host, "box")
      .process(format::ProcessTag::environment, nul_separated({"MALLOC_ARENA_MAX=2", "LD_PRELOAD=libheapspy.so"}))
      .process(format::ProcessTag::allocator, "glibc")
      .process(format::ProcessTag::allocator_version, "2.36")
      .process(format::ProcessTag::glibc_version, "2.36")
      .process(format::ProcessTag::cpus, "2");
  auto& main = trace.thread("main", 4242);
  main.stamp(1'000'000'000).malloc(0x10000010, 1000).calloc(0x10000410, 24).malloc(0x10000810, 40);
  main.failed(format::Origin::malloc, 1ull << 62);
  auto& worker = trace.thread("worker", 4243, 1'500'000'000);
  worker.stamp(2'000'000'000).free(0x10000010).free(0x99999990);
  return trace;
}

TEST(BuildReport, CountsWhatTheTraceHolds) {
  const test::TemporaryFile file(two_threads().bytes());
  const Report report = build_report(file.path());
  EXPECT_EQ(report.trace.path, file.path());
  EXPECT_EQ(report.trace.format_version, format::kVersion);
  EXPECT_EQ(report.trace.mode, "full");
  EXPECT_EQ(report.trace.clock, "stamp");
  EXPECT_EQ(report.trace.lost_events, 0u);
  EXPECT_TRUE(report.trace.complete);
  EXPECT_EQ(report.totals.allocations, 3u);
  EXPECT_EQ(report.totals.frees, 2u);
  EXPECT_EQ(report.totals.failed, 1u);
  EXPECT_EQ(report.totals.unknown_frees, 1u);
  EXPECT_EQ(report.totals.bytes_allocated, 1064u);
  EXPECT_EQ(report.totals.live_bytes, 64u);
  EXPECT_EQ(report.totals.live_blocks, 2u);
  EXPECT_EQ(report.totals.peak_live_bytes, 1064u);
  ASSERT_EQ(report.threads.size(), 2u);
  EXPECT_EQ(report.threads[0].name, "main");
  EXPECT_EQ(report.threads[0].freed_by_others, 1u);
  EXPECT_EQ(report.threads[1].freed_for_others, 1u);
  EXPECT_EQ(report.threads[1].start_s, 1.5);
  EXPECT_EQ(report.threads[1].end_s, std::nullopt);
}

TEST(BuildReport, SaysWhatRanAndHowItEnded) {
  const test::TemporaryFile file(two_threads().bytes());
  const Report report = build_report(file.path());
  EXPECT_EQ(report.process.pid, 4242u);
  EXPECT_EQ(report.process.ppid, 4200u);
  EXPECT_EQ(report.process.exe, "/usr/bin/app");
  EXPECT_THAT(report.process.command, ElementsAre("app", "--now"));
  EXPECT_EQ(report.process.start_time, "2026-01-02T03:04:05.000000006Z");
  EXPECT_EQ(report.process.duration_s, 3.0);
  EXPECT_EQ(report.process.end, "exit");
  EXPECT_EQ(report.process.allocator_version, "2.36");
  EXPECT_EQ(report.process.cpus, 2u);
  EXPECT_EQ(arena_max_setting(report), "MALLOC_ARENA_MAX=2");
}

TEST(BuildReport, SaysWhatRecordingTook) {
  test::TraceBuilder trace = two_threads();
  trace.header().recorder_ticks = 250'000;
  const test::TemporaryFile file(trace.bytes());
  const Report report = build_report(file.path());
  EXPECT_EQ(report.trace.events, 6u);
  EXPECT_NEAR(report.recorder.measured_s.value(), 0.00025, 1e-12);
  EXPECT_NEAR(report.recorder.predicted_s.value(), 6 * 2.7e-9, 1e-15);
  EXPECT_EQ(report.recorder.resident_bytes, std::nullopt);  // without a snapshot
  EXPECT_EQ(report.recorder.dirty_bytes, std::nullopt);
}

TEST(BuildReport, WhatRecordingTookIsUnknownWhereNothingWasMeasured) {
  test::TraceBuilder trace = two_threads();
  trace.header().clock = format::Clock::event;
  const test::TemporaryFile file(trace.bytes());
  const Report report = build_report(file.path());
  EXPECT_EQ(report.recorder.measured_s, std::nullopt);  // a trace of an older recorder
  EXPECT_EQ(report.recorder.predicted_s, std::nullopt);
}

TEST(BuildReport, WithoutASnapshotResidencyIsUnknownAndNotZero) {
  const test::TemporaryFile file(two_threads().bytes());
  const Report report = build_report(file.path());
  EXPECT_EQ(report.at.why, "end");
  EXPECT_EQ(report.rss.total_bytes, std::nullopt);
  EXPECT_THAT(report.rss.parts, IsEmpty());
  ASSERT_EQ(report.arenas.size(), 1u);
  EXPECT_EQ(report.arenas[0].live_bytes, 64u);
  EXPECT_EQ(report.arenas[0].resident_bytes, std::nullopt);
  EXPECT_EQ(report.arenas[0].trimmable_bytes, std::nullopt);
  EXPECT_EQ(report.threads[0].pinned_bytes, std::nullopt);
  EXPECT_EQ(report.process.peak_rss_bytes, std::nullopt);
  EXPECT_THAT(report.findings, IsEmpty());
}

trace::Snapshot snapshot(trace::Tick tick, std::uint64_t heap_bytes) {
  trace::Snapshot snapshot;
  snapshot.begin = snapshot.end = tick;
  snapshot.reason = format::SnapshotReason::exit;
  snapshot.brk_end = 0x10000000 + heap_bytes;
  snapshot.status_text = "Name:\tapp\nVmHWM:\t  30000 kB\nVmPTE:\t     96 kB\n";
  trace::Mapping heap;
  heap.start = 0x10000000;
  heap.end = 0x10000000 + heap_bytes;
  heap.rss_bytes = heap.anonymous_bytes = heap_bytes;
  heap.read = heap.write = true;
  heap.name = "[heap]";
  snapshot.mappings = {heap};
  snapshot.rss_bytes = heap_bytes;
  trace::ResidentPages pages;
  pages.start = heap.start;
  pages.pages = heap_bytes / 4096;
  pages.kind = format::Residency::all;
  snapshot.resident = {pages};
  return snapshot;
}

// 20 blocks of 1 MiB, then one of 1 byte above them; the 20 are freed: the heap is plugged.
test::TraceBuilder plugged() {
  test::TraceBuilder trace = two_threads();
  auto& filler = trace.thread("filler", 4244, 2'100'000'000);
  for (std::uint64_t i = 0; i < 20; i++) filler.malloc(0x10100010 + i * (kMiB + 16), kMiB);
  filler.malloc(0x11600010, 1);
  filler.stamp(2'400'000'000);
  for (std::uint64_t i = 0; i < 20; i++) filler.free(0x10100010 + i * (kMiB + 16));
  trace.snapshot(snapshot(2'900'000'000, 24 * kMiB));
  return trace;
}

TEST(BuildReport, ASnapshotMakesALedgerThatSumsToRss) {
  const test::TemporaryFile file(plugged().bytes());
  const Report report = build_report(file.path());
  ASSERT_EQ(report.rss.total_bytes, 24 * kMiB);
  std::uint64_t sum = 0;
  for (const PartReport& part : report.rss.parts) sum += part.bytes;
  EXPECT_EQ(sum, 24 * kMiB);
  EXPECT_EQ(report.rss_at_end.total_bytes, 24 * kMiB);
  EXPECT_EQ(report.process.peak_rss_bytes, 30000u * 1024);
}

TEST(BuildReport, NamesTheBlockThatPlugsTheHeap) {
  const test::TemporaryFile file(plugged().bytes());
  const Report report = build_report(file.path());
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, "plug");
  EXPECT_GE(report.findings[0].bytes, 20 * kMiB);
  ASSERT_FALSE(report.arenas.empty());
  EXPECT_EQ(report.arenas[0].kind, "main");
  ASSERT_TRUE(report.arenas[0].plug.has_value());
  EXPECT_EQ(report.arenas[0].plug->size, 1u);
  EXPECT_EQ(report.arenas[0].plug->address, 0x11600010u);
  EXPECT_EQ(thread_with_id(report, report.arenas[0].plug->thread)->name, "filler");
}

TEST(BuildReport, AMomentAskedForIsTheLastSnapshotBefore) {
  test::TraceBuilder trace = plugged();
  trace.snapshot(snapshot(2'950'000'000, 25 * kMiB));
  const test::TemporaryFile file(trace.bytes());
  BuildOptions options;
  options.at_seconds = 2.92;
  const Report report = build_report(file.path(), options);
  EXPECT_EQ(report.at.why, "asked");
  EXPECT_NEAR(report.at.time_s.value(), 2.9, 1e-9);
  EXPECT_EQ(report.rss.total_bytes, 24 * kMiB);
  EXPECT_EQ(report.rss_at_end.total_bytes, 25 * kMiB);
}

TEST(BuildReport, DamageIsListedAndTheReportIsMade) {
  std::string bytes = two_threads().bytes();
  bytes.resize(bytes.size() - 100);
  const test::TemporaryFile file(bytes);
  const Report report = build_report(file.path());
  EXPECT_FALSE(report.trace.complete);
  EXPECT_FALSE(report.trace.damage.empty());
}

TEST(BuildReport, WhatIsNotATraceIsUnreadable) {
  const test::TemporaryFile file("not a trace");
  EXPECT_THROW(build_report(file.path()), trace::Unreadable);
}

}  // namespace
}  // namespace heapspy::report
