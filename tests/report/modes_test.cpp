// What a report says of traces that do not hold every call: rings, samples, counters, pauses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "analyzer/report/build.h"
#include "analyzer/report/report_json.h"
#include "analyzer/report/report_text.h"
#include "tests/support/amounts.h"
#include "tests/support/trace_builder.h"

namespace heapspy::report {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kMs = 1'000'000;  // ticks are nanoseconds
using test::kMiB;

test::TraceBuilder of_mode(format::Mode mode, test::TraceBuilder::Options options = {}) {
  test::TraceBuilder trace(options);
  trace.header().mode = mode;
  trace.header().end_tick = 100 * kMs;
  trace.process(format::ProcessTag::exe, "/usr/bin/app")
      .process(format::ProcessTag::allocator, "glibc")
      .process(format::ProcessTag::glibc_version, "2.36");
  return trace;
}

Report report_of(const test::TraceBuilder& trace) {
  const test::TemporaryFile file(trace.bytes());
  return build_report(file.path());
}

std::string text_of(const Report& report) {
  std::string text;
  for (const std::string& line : report_text(report, {})) text += line + " ";
  return text;
}

trace::Snapshot heap_of(trace::Tick tick, std::uint64_t bytes) {
  trace::Snapshot snapshot;
  snapshot.begin = snapshot.end = tick;
  snapshot.brk_end = 0x10000000 + bytes;
  trace::Mapping heap;
  heap.start = 0x10000000;
  heap.end = 0x10000000 + bytes;
  heap.rss_bytes = heap.anonymous_bytes = bytes;
  heap.read = heap.write = true;
  heap.name = "[heap]";
  snapshot.mappings = {heap};
  snapshot.rss_bytes = bytes;
  trace::ResidentPages pages;
  pages.start = heap.start;
  pages.pages = bytes / 4096;
  pages.kind = format::Residency::all;
  snapshot.resident = {pages};
  return snapshot;
}

std::uint64_t part(const Report& report, const std::string& name) {
  for (const PartReport& each : report.rss.parts)
    if (each.name == name) return each.bytes;
  return ~0ull;
}

// ---- ring --------------------------------------------------------------------------------------------------------
// The first pieces of thread 1 were overwritten; thread 2 is there as a whole.
test::TraceBuilder ring() {
  test::TraceBuilder::Options options;
  options.rings = true;
  test::TraceBuilder trace = of_mode(format::Mode::ring, options);
  trace.header().ring_bytes = 64 * kMiB;
  auto& main = trace.bare_thread(1);
  main.stamp(20 * kMs).lose(1000);
  main.start("main").stamp(20 * kMs).free(0x9000).malloc(0x1000, 100).malloc(0x2000, 200);
  main.stamp(29 * kMs).lose(500);
  // The free of 0x1000 and a later allocation are among what is missing here.
  main.start("main").stamp(30 * kMs).malloc(0x1000, 10).free(0x1000).free(0x3000).malloc(0x4000, 40).stamp(31 * kMs);
  trace.thread("worker", 2, 5 * kMs).malloc(0x5000, 50).stamp_off_cpu(40 * kMs).free(0x5000).malloc(0x6000, 60);
  return trace;
}

TEST(Ring, ABlockFromBeforeItIsNoUnknownFree) {
  const Report report = report_of(ring());
  EXPECT_EQ(report.totals.unknown_frees, 0u);
  EXPECT_EQ(report.totals.before_ring_frees, 3u);  // 0x9000, 0x3000, and 0x5000 from before the whole part
  EXPECT_EQ(report.trace.lost_events, 0u);
  EXPECT_THAT(report.trace.damage, IsEmpty());
  EXPECT_TRUE(report.trace.complete);
}

TEST(Ring, SaysWhichTimeItHoldsAsAWhole) {
  const Report report = report_of(ring());
  ASSERT_TRUE(report.trace.ring);
  EXPECT_FALSE(report.trace.ring->whole);
  EXPECT_EQ(report.trace.ring->limit_bytes, 64 * kMiB);
  EXPECT_NEAR(report.trace.ring->oldest_s.value(), 0.005, 1e-6);
  EXPECT_NEAR(report.trace.ring->from_s.value(), 0.029, 0.0015);  // the piece of main that follows the last gap
  EXPECT_GE(report.trace.ring->to_s.value(), 0.040);
  EXPECT_EQ(report.trace.ring->frozen_by, std::nullopt);
  const std::string text = text_of(report);
  EXPECT_THAT(text, HasSubstr("A ring: it holds every event from "));
  EXPECT_THAT(text, HasSubstr("3 frees were of older ones."));
}

TEST(Ring, LiveFiguresAreOfBlocksAllocatedInItsSpan) {
  const Report report = report_of(ring());
  EXPECT_EQ(report.totals.live_bytes, 100u);  // 0x4000 and 0x6000; what became of 0x2000 is not known
  EXPECT_EQ(report.totals.live_blocks, 2u);
}

TEST(Ring, ThatWasNeverOverwrittenIsLikeAFullTrace) {
  test::TraceBuilder::Options options;
  options.rings = true;
  test::TraceBuilder trace = of_mode(format::Mode::ring, options);
  auto& main = trace.thread("main", 1);
  main.stamp(kMs).malloc(0x1000, 100).chunk().start("main").stamp(2 * kMs).malloc(0x2000, 200).free(0x1000).free(0x7000);
  const Report report = report_of(trace);
  EXPECT_TRUE(report.trace.ring->whole);
  EXPECT_EQ(report.totals.live_bytes, 200u);
  EXPECT_EQ(report.totals.unknown_frees, 1u);
  EXPECT_EQ(report.totals.before_ring_frees, 0u);
  EXPECT_THAT(text_of(report), HasSubstr("as good as a full trace"));
}

TEST(Ring, ACopySaysWhatFrozeIt) {
  test::TraceBuilder trace = of_mode(format::Mode::ring);
  trace.header().frozen_by = format::Trigger::fail;
  trace.bare_thread(1).stamp(20 * kMs).lose(1000).start("main").stamp(20 * kMs).malloc(0x1000, 100);
  const Report report = report_of(trace);
  EXPECT_EQ(report.trace.ring->frozen_by, "fail");
  EXPECT_EQ(report_json(report)["trace"]["ring"]["frozen_by"], "fail");
  EXPECT_THAT(text_of(report), HasSubstr("frozen because an allocation failed"));
}

TEST(Ring, MallocIsOnePartOfTheLedger) {
  test::TraceBuilder trace = ring();
  trace.snapshot(heap_of(50 * kMs, 4 * kMiB));
  const Report report = report_of(trace);
  EXPECT_EQ(part(report, "malloc"), 4 * kMiB);
  EXPECT_EQ(part(report, "malloc: free, trimmable"), ~0ull);
  for (const ArenaReport& arena : report.arenas) {
    EXPECT_EQ(arena.pinned_bytes, std::nullopt);
    EXPECT_EQ(arena.trimmable_bytes, std::nullopt);
  }
}

// ---- sample ------------------------------------------------------------------------------------------------------
double p(double size, double mean) { return 1 - std::exp(-size / mean); }

TEST(Sample, EachBlockStandsForAllThatWereNotSampled) {
  test::TraceBuilder trace = of_mode(format::Mode::sample);
  trace.header().sample_bytes = 1000;
  auto& main = trace.thread("main", 1);
  main.stamp(kMs).malloc(0x1000, 100).malloc(0x2000, 100).malloc(0x3000, 5000).malloc(0x4000, 0).free(0x1000);
  const Report report = report_of(trace);
  const double small = 1 / p(100, 1000), large = 1 / p(5000, 1000), empty = 1 / p(1, 1000);
  EXPECT_EQ(report.totals.allocations, static_cast<std::uint64_t>(std::llround(2 * small + large + empty)));
  EXPECT_EQ(report.totals.bytes_allocated, static_cast<std::uint64_t>(std::llround(200 * small + 5000 * large)));
  EXPECT_EQ(report.totals.live_bytes, static_cast<std::uint64_t>(std::llround(100 * small + 5000 * large)));
  EXPECT_EQ(report.totals.peak_live_bytes, static_cast<std::uint64_t>(std::llround(200 * small + 5000 * large)));
  EXPECT_EQ(report.totals.frees, static_cast<std::uint64_t>(std::llround(small)));
  EXPECT_EQ(report.totals.temporary, std::nullopt);
  ASSERT_TRUE(report.totals.standard_error);
  const double variance = (1 - p(100, 1000)) * small * small, variance_large = (1 - p(5000, 1000)) * large * large;
  const double variance_empty = (1 - p(1, 1000)) * empty * empty;
  EXPECT_NEAR(report.totals.standard_error->allocations, std::sqrt(2 * variance + variance_large + variance_empty), 1e-6);
  EXPECT_NEAR(report.totals.standard_error->live_bytes, std::sqrt(variance * 1e4 + variance_large * 25e6), 1e-6);
  EXPECT_NEAR(report.totals.standard_error->bytes_allocated, std::sqrt(2 * variance * 1e4 + variance_large * 25e6), 1e-6);
  ASSERT_EQ(report.threads.size(), 1u);
  EXPECT_EQ(report.threads[0].bytes_allocated, report.totals.bytes_allocated);
  EXPECT_NEAR(report.threads[0].standard_error->live_bytes, report.totals.standard_error->live_bytes, 1e-9);
  std::uint64_t allocations = 0;
  for (const SizeReport& size : report.sizes) allocations += size.allocations;
  EXPECT_NEAR(static_cast<double>(allocations), static_cast<double>(report.totals.allocations), 2);
  const auto json = report_json(report);
  EXPECT_EQ(json["trace"]["sample"]["mean_bytes"], 1000);
  EXPECT_EQ(json["totals"]["standard_error"]["allocations"],
            static_cast<std::uint64_t>(std::ceil(report.totals.standard_error->allocations)));
}

// Against the truth: blocks drawn as the recorder draws them, many times; the mean is right and the error is that of the runs.
TEST(Sample, EstimatesAreUnbiasedAndTheirErrorIsTheirSpread) {
  constexpr double kMean = 4096;
  constexpr int kRuns = 60, kBlocks = 4000;
  constexpr double kTrueBytes = kBlocks * (16 + 1600) / 2.0;
  std::uint64_t random = 88172645463325252;
  const auto uniform = [&] {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return (static_cast<double>(random >> 11) + 0.5) * 0x1p-53;
  };
  double sum = 0, squares = 0, errors = 0;
  for (int run = 0; run < kRuns; run++) {
    test::TraceBuilder trace = of_mode(format::Mode::sample);
    trace.header().sample_bytes = static_cast<std::uint64_t>(kMean);
    auto& main = trace.thread("main", 1);
    double until = -std::log(uniform()) * kMean;
    for (int i = 0; i < kBlocks; i++) {
      const std::uint64_t size = i % 2 ? 16 : 1600;
      until -= static_cast<double>(size);
      if (until >= 0) continue;
      until = -std::log(uniform()) * kMean;
      main.stamp(kMs + static_cast<std::uint64_t>(i)).malloc(0x100000 + static_cast<std::uint64_t>(i) * 0x1000, size);
    }
    const Report report = report_of(trace);
    const auto estimate = static_cast<double>(report.totals.live_bytes.value());
    sum += estimate;
    squares += estimate * estimate;
    errors += report.totals.standard_error->live_bytes;
  }
  const double mean = sum / kRuns, spread = std::sqrt(squares / kRuns - mean * mean), error = errors / kRuns;
  EXPECT_NEAR(mean, kTrueBytes, 4 * error / std::sqrt(static_cast<double>(kRuns)));
  EXPECT_GT(error, spread * 0.7);
  EXPECT_LT(error, spread * 1.4);
}

TEST(Sample, AReallocToABlockThatIsNotSampledIsNoFree) {
  test::TraceBuilder trace = of_mode(format::Mode::sample);
  trace.header().sample_bytes = 1000;
  trace.thread("main", 1).stamp(kMs).malloc(0x1000, 100).realloc_begin(0x1000).realloc_freed();
  const Report report = report_of(trace);
  EXPECT_EQ(report.totals.frees, 0u);
  EXPECT_EQ(report.totals.live_bytes, 0u);
  EXPECT_EQ(report.totals.standard_error->live_bytes, 0);
}

TEST(Sample, KnowsNothingAboutPagesAndSaysHowGoodItIs) {
  test::TraceBuilder trace = of_mode(format::Mode::sample);
  trace.header().sample_bytes = 1 << 19;
  trace.thread("main", 1).stamp(kMs).malloc(0x10000010, 100'000).malloc(0x10100010, 100);
  trace.snapshot(heap_of(50 * kMs, 4 * kMiB));
  const Report report = report_of(trace);
  EXPECT_EQ(part(report, "malloc"), 4 * kMiB);
  ASSERT_FALSE(report.arenas.empty());
  EXPECT_EQ(report.arenas[0].live_bytes, std::nullopt);
  EXPECT_EQ(report.arenas[0].pinned_bytes, std::nullopt);
  EXPECT_EQ(report.arenas[0].resident_bytes, 4 * kMiB);
  EXPECT_EQ(report.at.live_bytes, report.totals.live_bytes);
  EXPECT_THAT(report.findings, IsEmpty());
  const std::string text = text_of(report);
  EXPECT_THAT(text, HasSubstr("≈ "));
  EXPECT_THAT(text, HasSubstr(" ± "));
}

// ---- count -------------------------------------------------------------------------------------------------------
format::ThreadCounters counters(std::uint32_t id, const char* name) {
  format::ThreadCounters thread{};
  thread.thread = id;
  thread.tid = 100 + id;
  thread.start_tick = id * kMs;
  thread.threads = 1;
  std::strncpy(thread.name, name, sizeof thread.name);
  return thread;
}

test::TraceBuilder counted() {
  test::TraceBuilder trace = of_mode(format::Mode::count);
  format::ThreadCounters one = counters(1, "main");
  const std::uint64_t calls[] = {12, 2, 1, 1, 5, 1, 5, 7, 3, 1, 2, 1};
  std::memcpy(one.calls, calls, sizeof calls);
  one.allocations[5] = 19;  // 16 to 31 bytes
  one.allocations[0] = 1;
  one.bytes[5] = 500;
  format::ThreadCounters ended = counters(format::kEndedThreads, "");
  ended.threads = 1200;
  ended.calls[0] = 30;
  ended.calls[7] = 30;
  ended.allocations[8] = 30;
  ended.bytes[8] = 6000;
  trace.counters(ended).counters(one);
  return trace;
}

TEST(Count, TotalsThreadsAndSizesComeFromTheCounters) {
  const Report report = report_of(counted());
  EXPECT_THAT(report.trace.damage, IsEmpty());
  EXPECT_EQ(report.totals.allocations, 50u);
  EXPECT_EQ(report.totals.reallocations, 4u);
  EXPECT_EQ(report.totals.frees, 41u);
  EXPECT_EQ(report.totals.failed, 3u);
  EXPECT_EQ(report.totals.bytes_allocated, 6500u);
  EXPECT_EQ(report.totals.live_blocks, 9u);
  EXPECT_EQ(report.trace.events, 98u);
  ASSERT_EQ(report.threads.size(), 2u);
  EXPECT_EQ(report.threads[0].name, "main");
  EXPECT_EQ(report.threads[0].tid, 101u);
  EXPECT_EQ(report.threads[0].allocations, 20u);
  EXPECT_EQ(report.threads[1].name, "(1200 threads that ended)");
  ASSERT_EQ(report.sizes.size(), 3u);
  EXPECT_EQ(report.sizes[1].from, 16u);
  EXPECT_EQ(report.sizes[1].to, 32u);
  EXPECT_EQ(report.sizes[1].allocations, 19u);
  EXPECT_EQ(report.sizes[1].bytes, 500u);
  EXPECT_EQ(report.sizes[2].from, 128u);
}

TEST(Count, WhatNeedsBlocksIsUnknownAndNotZero) {
  test::TraceBuilder trace = counted();
  trace.snapshot(heap_of(50 * kMs, 4 * kMiB));
  const Report report = report_of(trace);
  for (const Bytes& unknown :
       {report.totals.live_bytes, report.totals.peak_live_bytes, report.totals.temporary, report.totals.unknown_frees,
        report.totals.inherited_frees, report.threads[0].live_bytes, report.threads[0].freed_by_others,
        report.sizes[0].live_blocks, report.at.live_bytes, report.arenas.at(0).live_bytes, report.timeline.at(0).live_bytes})
    EXPECT_EQ(unknown, std::nullopt);
  EXPECT_EQ(part(report, "malloc"), 4 * kMiB);
  EXPECT_THAT(report.findings, IsEmpty());
  const auto json = report_json(report);
  EXPECT_TRUE(json["totals"]["live_bytes"].is_null());
  EXPECT_TRUE(json["threads"][0]["peak_live_bytes"].is_null());
  EXPECT_THAT(text_of(report), HasSubstr("Counters only: 9 blocks live at the end"));
}

TEST(Count, ADamagedSegmentIsListed) {
  std::string bytes = counted().bytes();
  format::ChunkHeader header;
  for (std::size_t at = format::kPageBytes; at + sizeof header <= bytes.size(); at += format::kChunkAlignment) {
    std::memcpy(&header, bytes.data() + at, sizeof header);
    if (header.magic == format::kChunkMagic && header.kind == format::ChunkKind::counters)
      std::memset(bytes.data() + at + sizeof header, 0xFF, 8);  // slots, slot_bytes
  }
  const test::TemporaryFile file(bytes);
  const Report report = build_report(file.path());
  EXPECT_EQ(report.trace.damage.size(), 1u);
  EXPECT_THAT(report.threads, IsEmpty());
}

// ---- pauses ------------------------------------------------------------------------------------------------------
TEST(Pause, BlocksThatCameInItAreNoUnknownFrees) {
  test::TraceBuilder trace = of_mode(format::Mode::full);
  auto& main = trace.thread("main", 1);
  main.stamp(kMs).malloc(0x1000, 100).malloc(0x2000, 200).stamp(2 * kMs).paused().stamp(9 * kMs).resumed();
  main.free(0x3000).malloc(0x1000, 10).free(0x1000).stamp(11 * kMs);
  const Report report = report_of(trace);
  EXPECT_EQ(report.totals.unknown_frees, 0u);
  EXPECT_EQ(report.totals.paused_frees, 1u);
  EXPECT_EQ(report.totals.frees, 2u);
  EXPECT_EQ(report.totals.live_bytes, 200u);  // the first block at 0x1000 ended in the pause
  ASSERT_EQ(report.trace.pauses.size(), 1u);
  EXPECT_NEAR(report.trace.pauses[0].from_s, 0.002, 1e-5);
  EXPECT_NEAR(report.trace.pauses[0].to_s.value(), 0.009, 1e-5);
  EXPECT_EQ(report_json(report)["trace"]["pauses"].size(), 1u);
  EXPECT_THAT(text_of(report), HasSubstr("paused recording 1 time"));
}

TEST(Pause, ThatHasNoEndHasNone) {
  test::TraceBuilder trace = of_mode(format::Mode::full);
  trace.thread("main", 1).stamp(kMs).malloc(0x1000, 100).stamp(2 * kMs).paused();
  const Report report = report_of(trace);
  ASSERT_EQ(report.trace.pauses.size(), 1u);
  EXPECT_EQ(report.trace.pauses[0].to_s, std::nullopt);
  EXPECT_EQ(report.totals.live_bytes, 100u);
}

TEST(Pause, AfterItMallocIsOnePart) {
  test::TraceBuilder trace = of_mode(format::Mode::full);
  trace.thread("main", 1).stamp(kMs).malloc(0x10000010, 100).stamp(2 * kMs).paused().stamp(3 * kMs).resumed();
  trace.snapshot(heap_of(50 * kMs, 4 * kMiB));
  const Report report = report_of(trace);
  EXPECT_EQ(part(report, "malloc"), 4 * kMiB);
  EXPECT_THAT(report.findings, IsEmpty());
}

}  // namespace
}  // namespace heapspy::report
