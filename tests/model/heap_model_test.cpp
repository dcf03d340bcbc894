#include "analyzer/model/heap_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tests/model/world.h"
#include "tests/support/amounts.h"
#include "tests/support/trace_builder.h"

namespace heapspy::test {
namespace {

using model::Figures;
using model::Why;

// Ticks are nanoseconds. A main heap of 100 pages; what is resident grows and shrinks.
trace::Snapshot snapshot_at(Tick tick, std::uint64_t resident_pages) {
  trace::Snapshot snapshot;
  snapshot.begin = snapshot.end = tick;
  snapshot.reason = format::SnapshotReason::peak;
  std::vector<std::uint64_t> pages;
  for (std::uint64_t i = 0; i < resident_pages; i++) pages.push_back(i);
  add_memory(snapshot, kHeap, 100, "[heap]", pages);
  snapshot.brk_end = kHeap + 100 * kPage;
  return snapshot;
}

class HeapModel : public testing::Test {
 protected:
  TraceBuilder trace;

  Figures figures(const model::ModelOptions& options = {}) {
    trace.process(format::ProcessTag::allocator, "glibc").process(format::ProcessTag::glibc_version, "2.36");
    const std::string path = testing::TempDir() + "heap_model_test." + std::to_string(::getpid()) + ".hspy";
    trace.write(path);
    const trace::Reader reader(path);
    Figures result = model::build_figures(reader, options);
    ::unlink(path.c_str());
    return result;
  }

  // One block of 1000 bytes on each of pages 1 … 40, a second apart; then 39 of them are freed. Snapshots in between.
  void record(bool with_snapshots) {
    ThreadBuilder& thread = trace.thread("main", 100);
    for (std::uint64_t i = 1; i <= 40; i++) thread.stamp(i * 1'000'000'000).malloc(kHeap + i * kPage + 16, 1000);
    for (std::uint64_t i = 1; i <= 39; i++) thread.stamp((40 + i) * 1'000'000'000).free(kHeap + i * kPage + 16);
    thread.stamp(90'000'000'000).malloc(kHeap + 50 * kPage + 16, 1000);
    if (!with_snapshots) return;
    trace.snapshot(snapshot_at(10'500'000'000, 20));
    trace.snapshot(snapshot_at(40'500'000'000, 60));
    trace.snapshot(snapshot_at(85'000'000'000, 50));
  }
};

TEST_F(HeapModel, TakesThePeakOfRssAndTheLastSnapshot) {
  record(true);
  const Figures f = figures();
  ASSERT_EQ(f.moments.size(), 2u);
  const model::Moment* peak = f.at(Why::peak);
  const model::Moment* end = f.at(Why::end);
  EXPECT_EQ(f.at(Why::requested), nullptr);
  EXPECT_DOUBLE_EQ(peak->time_s, 40.5);
  EXPECT_EQ(peak->rss_bytes, 60 * kPage);
  EXPECT_EQ(peak->live_blocks, 40u);
  EXPECT_EQ(peak->heap.process.pinned_bytes, 40 * (kPage - 1008));
  EXPECT_EQ(peak->heap.process.trimmable_bytes, 19 * kPage);
  EXPECT_DOUBLE_EQ(end->time_s, 85);
  EXPECT_EQ(end->live_blocks, 1u);
  EXPECT_EQ(end->heap.process.pinned_bytes, kPage - 1008);
  // Seven of the freed blocks sit in the thread's cache.
  EXPECT_EQ(end->heap.process.cached_bytes, 7 * kPage + (kPage - 0x290));
  EXPECT_EQ(end->heap.process.trimmable_bytes, (50 - 1 - 1 - 7) * kPage);
  EXPECT_EQ(f.totals.allocations, 41u);
  EXPECT_EQ(f.totals.frees, 39u);
  EXPECT_EQ(f.totals.live_blocks, 2u);
  EXPECT_EQ(f.totals.peak_live_bytes, 40000u);
  ASSERT_EQ(f.threads.size(), 1u);
  EXPECT_EQ(f.threads[0].name, "main");
  EXPECT_LE(f.curve.size(), 256u);
}

TEST_F(HeapModel, ARequestedTimeMeansTheLastSnapshotBeforeIt) {
  record(true);
  model::ModelOptions options;
  options.at_seconds = 40;
  const Figures f = figures(options);
  ASSERT_NE(f.at(Why::requested), nullptr);
  EXPECT_DOUBLE_EQ(f.at(Why::requested)->time_s, 10.5);
  EXPECT_EQ(f.at(Why::requested)->live_blocks, 10u);
  EXPECT_EQ(f.at(Why::requested)->rss_bytes, 20 * kPage);
}

TEST_F(HeapModel, OfARequestedTimeLiveMemoryIsKnownExactly) {
  record(true);
  model::ModelOptions options;
  options.at_seconds = 30.5;  // the snapshot before is of 10.5 s
  const Figures f = figures(options);
  EXPECT_DOUBLE_EQ(f.at(Why::requested)->time_s, 10.5);
  EXPECT_EQ(f.at(Why::requested)->live_bytes, 10'000u);
  EXPECT_EQ(f.live_at_asked, 30'000u);
}

TEST_F(HeapModel, BeforeTheFirstSnapshotARequestedTimeHasEventsOnly) {
  record(true);
  model::ModelOptions options;
  options.at_seconds = 5.5;
  const Figures f = figures(options);
  const model::Moment* at = f.at(Why::requested);
  ASSERT_NE(at, nullptr);
  EXPECT_DOUBLE_EQ(at->time_s, 5.5);
  EXPECT_EQ(at->live_blocks, 5u);
  EXPECT_FALSE(at->rss_bytes);
  EXPECT_FALSE(at->heap.process.resident_bytes);
  EXPECT_EQ(f.totals.allocations, 41u);
}

TEST_F(HeapModel, WithoutSnapshotsTheEndIsTheLastEvent) {
  record(false);
  const Figures f = figures();
  ASSERT_EQ(f.moments.size(), 1u);
  EXPECT_EQ(f.moments[0].why, Why::end);
  EXPECT_DOUBLE_EQ(f.moments[0].time_s, 90);
  EXPECT_EQ(f.moments[0].live_blocks, 2u);
  EXPECT_FALSE(f.moments[0].rss_bytes);
  EXPECT_EQ(f.moments[0].heap.process.in_use_bytes, 2 * 1008u);
}

// RSS stands as high when all has been freed as when it was in use, and a little higher.
TEST_F(HeapModel, ThePeakIsWhereTheProgramNeededIt) {
  ThreadBuilder& thread = trace.thread("main", 100);
  thread.stamp(1'000'000'000).malloc(kHeap + 16, 200'000).stamp(50'000'000'000).free(kHeap + 16);
  trace.snapshot(snapshot_at(2'000'000'000, 30));
  trace.snapshot(snapshot_at(10'000'000'000, 58));
  trace.snapshot(snapshot_at(60'000'000'000, 60));
  const Figures f = figures();
  ASSERT_EQ(f.moments.size(), 2u);
  EXPECT_DOUBLE_EQ(f.at(Why::peak)->time_s, 10);
  EXPECT_EQ(f.at(Why::peak)->live_bytes, 200'000u);
  EXPECT_DOUBLE_EQ(f.at(Why::end)->time_s, 60);
}

TEST_F(HeapModel, ThePeakOfWhatGrowsToTheEndIsTheEnd) {
  ThreadBuilder& thread = trace.thread("main", 100);
  thread.stamp(1'000'000'000).malloc(kHeap + 16, 200'000).stamp(50'000'000'000).malloc(kHeap + 200'016, 5'000);
  trace.snapshot(snapshot_at(10'000'000'000, 58));
  trace.snapshot(snapshot_at(60'000'000'000, 60));
  const Figures f = figures();
  EXPECT_DOUBLE_EQ(f.at(Why::peak)->time_s, 60);
}

TEST_F(HeapModel, OneSnapshotIsPeakAndEnd) {
  trace.thread("main", 100).stamp(5).malloc(kHeap + kPage + 16, 1000);
  trace.snapshot(snapshot_at(10, 3));
  const Figures f = figures();
  ASSERT_EQ(f.moments.size(), 2u);
  EXPECT_EQ(f.at(Why::peak)->heap.process.pinned_bytes, kPage - 1008);
  EXPECT_EQ(f.at(Why::end)->heap.process.pinned_bytes, kPage - 1008);
}

TEST_F(HeapModel, AnEmptyTraceHasFiguresOfNothing) {
  const Figures f = figures();
  EXPECT_EQ(f.totals.allocations, 0u);
  EXPECT_TRUE(f.threads.empty());
  EXPECT_TRUE(f.curve.empty());
  ASSERT_EQ(f.moments.size(), 1u);
  EXPECT_TRUE(f.moments[0].heap.arenas.empty());
}

}  // namespace
}  // namespace heapspy::test
