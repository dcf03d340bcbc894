#include "analyzer/trace/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/support/trace_builder.h"
#include "tests/trace/event_log.h"

namespace heapspy::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using trace::Reader;
using trace::Timeline;
using trace::TimelineCounts;

struct Played {
  EventLog log;
  TimelineCounts counts;
  std::vector<trace::Block> live;

  explicit Played(const TraceBuilder& trace, bool with_times = false, bool reallocs_overlap = false) : log(with_times) {
    log.reallocs_overlap = reallocs_overlap;
    const TemporaryFile file(trace.bytes());
    const Reader reader(file.path());
    Timeline timeline(reader, {&log});
    counts = timeline.run();
    timeline.for_each_live([&](const trace::Block& block) { live.push_back(block); });
    EXPECT_EQ(live.size(), timeline.live_blocks());
    std::set<std::uint64_t> addresses;
    for (const trace::Block& block : live) addresses.insert(block.address);
    EXPECT_EQ(addresses.size(), live.size()) << "an address is live twice";
    EXPECT_EQ(live.size(), log.live.size());
  }
};

// ---- one thread --------------------------------------------------------------------------------------------------
TEST(Timeline, TellsEachCallOfOneThreadInItsOrder) {
  TraceBuilder trace;
  auto& main = trace.thread("main", 100, 0, 0x7ffd0000);
  main.stamp(10).malloc(0x1000, 24).calloc(0x2000, 100).operator_new(0x3000, 8).realloc_new(0x4000, 7);
  main.aligned(0x5008, 200000).operator_new_aligned(0x6000, 64);
  main.free(0x1000).operator_delete(0x3000).realloc(0x2000, 0x2000, 150).realloc(0x4000, 0x7000, 300000);
  main.realloc_begin(0x5008).realloc_failed(1ull << 60).realloc_begin(0x6000).realloc_freed();
  main.failed(format::Origin::calloc, 1ull << 61).name("renamed").mark("here").end();
  const Played run(trace);
  EXPECT_THAT(run.log.lines,
              ElementsAre("T1 start 100 'main' 7ffd0000", "T1 alloc 1000+24", "T1 alloc 2000+100", "T1 alloc 3000+8",
                          "T1 alloc 4000+7", "T1 alloc 5008+200000", "T1 alloc 6000+64", "T1 free 1000 of T1",
                          "T1 free 3000 of T1", "T1 resize 2000+100 2000+150", "T1 resize 4000+7 7000+300000",
                          "T1 failed 3 1152921504606846976", "T1 realloc-free 6000 of T1", "T1 failed 2 2305843009213693952",
                          "T1 name 'renamed'", "T1 mark 'here'", "T1 end"));
  EXPECT_EQ(run.counts.events, 13u) << "6 allocations, 2 frees, 2 reallocs, 1 realloc to 0, 2 failed";
  EXPECT_EQ(run.counts.reordered_events, 0u);
  EXPECT_EQ(run.live.size(), 3u);
}

TEST(Timeline, KeepsBirthAndOriginThroughReallocs) {
  TraceBuilder trace;
  auto& main = trace.bare_thread(100);
  main.stamp(10).calloc(0x1000, 24).stamp(20).realloc(0x1000, 0x2000, 48).stamp(30).realloc(0x2000, 0x2000, 64);
  const Played run(trace);
  ASSERT_EQ(run.live.size(), 1u);
  EXPECT_EQ(run.live[0].born, 10u);
  EXPECT_EQ(run.live[0].size, 64u);
  EXPECT_EQ(run.live[0].origin, trace::Origin::calloc);
  EXPECT_EQ(run.log.resizes, 2u);
}

TEST(Timeline, JoinsReallocsAroundWhatASignalHandlerDoes) {
  TraceBuilder trace;
  auto& main = trace.bare_thread(100);
  main.stamp(10).malloc(0x1000, 24).malloc(0x3000, 24);
  main.realloc_begin(0x1000)
      .malloc(0x4000, 5)
      .realloc(0x3000, 0x5000, 99)
      .free(0x4000)
      .stamp_off_cpu(500)
      .realloc_end(0x2000, 48);
  const Played run(trace);
  EXPECT_THAT(run.log.lines, ElementsAre("T1 alloc 1000+24", "T1 alloc 3000+24", "T1 alloc 4000+5", "T1 resize 3000+24 5000+99",
                                         "T1 free 4000 of T1", "T1 resize 1000+24 2000+48"));
}

TEST(Timeline, LetsABlockLiveWhoseReallocNeverEnded) {
  TraceBuilder trace;
  auto& main = trace.bare_thread(100);
  main.stamp(10).malloc(0x1000, 24).realloc_begin(0x1000);
  EXPECT_EQ(Played(trace).live.size(), 1u);
}

TEST(Timeline, JoinsAReallocWhoseEndComesManyEventsLater) {
  TraceBuilder trace;
  auto& main = trace.bare_thread(100);
  main.stamp(0).malloc(0x1000, 24).malloc(0x1800, 24).realloc_begin(0x1800).realloc_begin(0x1000);
  for (std::uint64_t i = 0; i < 200; i++) main.stamp(10 + i * 10).malloc(0x10000 + i * 16, 1);
  main.realloc_end(0x2000, 48).realloc_end(0x1800, 30);
  const Played run(trace);
  EXPECT_EQ(run.log.lines[202], "T1 resize 1000+24 2000+48");
  EXPECT_EQ(run.log.lines[203], "T1 resize 1800+24 1800+30");
  EXPECT_EQ(run.live.size(), 202u);
}

TEST(Timeline, CountsAMovingBlockAsLive) {
  TraceBuilder trace;
  auto& main = trace.bare_thread(100);
  trace::Snapshot snapshot;
  snapshot.begin = 50;
  trace.snapshot(snapshot);
  main.stamp(10).malloc(0x1000, 24).stamp(20).realloc_begin(0x1000).stamp_off_cpu(100).realloc_end(0x2000, 48);
  const TemporaryFile file(trace.bytes());
  const Reader reader(file.path());
  struct AtSnapshot : trace::Observer {
    Timeline* timeline = nullptr;
    std::vector<std::uint64_t> sizes;
    void snapshot_taken(const trace::Snapshot&) override {
      EXPECT_EQ(timeline->live_blocks(), 1u);
      timeline->for_each_live([&](const trace::Block& block) { sizes.push_back(block.size); });
    }
  } observer;
  Timeline timeline(reader, {&observer});
  observer.timeline = &timeline;
  timeline.run();
  EXPECT_THAT(observer.sizes, ElementsAre(24u));
}

TEST(Timeline, EstimatesTimesBetweenStamps) {
  TraceBuilder trace;
  auto& main = trace.bare_thread(100);
  main.stamp(1000).malloc(0x1000, 1).malloc(0x2000, 2).malloc(0x3000, 3).malloc(0x4000, 4);
  main.stamp(2000).malloc(0x5000, 5).stamp_off_cpu(1'000'000).malloc(0x6000, 6);
  const Played run(trace, true);
  EXPECT_THAT(run.log.lines, ElementsAre("1000 T1 alloc 1000+1", "1250 T1 alloc 2000+2", "1500 T1 alloc 3000+3",
                                         "1750 T1 alloc 4000+4", "2000 T1 alloc 5000+5", "1000000 T1 alloc 6000+6"));
  EXPECT_EQ(run.counts.last_tick, 1'000'000u);
}

TEST(Timeline, TellsUnknownFreesOfAProcessThatWasNotForked) {
  TraceBuilder trace;
  trace.bare_thread(100).stamp(10).free(0x1000).malloc(0x1000, 5).free(0x1000).free(0x1000);
  const Played run(trace);
  EXPECT_THAT(run.log.lines,
              ElementsAre("T1 unknown free 1000", "T1 alloc 1000+5", "T1 free 1000 of T1", "T1 unknown free 1000"));
  EXPECT_EQ(run.counts.reordered_events, 0u);
}

TEST(Timeline, TellsInheritedBlocksOfAForkedProcess) {
  TraceBuilder trace;
  trace.header().forked = 1;
  trace.bare_thread(100)
      .stamp(10)
      .free(0x1000)
      .realloc(0x2000, 0x3000, 9)
      .realloc(0x4000, 0x4000, 8)
      .malloc(0x1000, 5)
      .free(0x1000)
      .free(0x1000);
  const Played run(trace);
  EXPECT_THAT(run.log.lines, ElementsAre("T1 inherited free 1000", "T1 resize ? 3000+9", "T1 resize ? 4000+8",
                                         "T1 alloc 1000+5", "T1 free 1000 of T1", "T1 unknown free 1000"));
  EXPECT_EQ(run.live.size(), 2u);
}

// A second thread, so that the free waits for an allocation that does not come, while the address is given out again.
TEST(Timeline, TellsAnInheritedBlockWhoseAddressIsUsedAgainBeforeItsFreeIsSettled) {
  TraceBuilder trace;
  trace.header().forked = 1;
  trace.bare_thread(100).stamp(10).free(0x1000).malloc(0x1000, 5).stamp(900000).free(0x1000);
  trace.bare_thread(101).stamp(500).malloc(0x9000, 2).stamp(800000).free(0x9000);
  const Played run(trace);
  EXPECT_THAT(run.log.lines, testing::UnorderedElementsAre("T1 inherited free 1000", "T1 alloc 1000+5", "T2 alloc 9000+2",
                                                           "T2 free 9000 of T2", "T1 free 1000 of T1"));
}

// ---- several threads ---------------------------------------------------------------------------------------------
TEST(Timeline, OrdersThreadsByTheirStamps) {
  TraceBuilder trace;
  auto& first = trace.bare_thread(100);
  auto& second = trace.bare_thread(101);
  for (std::uint64_t i = 0; i < 4; i++) {
    first.stamp(1000 + i * 2000).malloc(0x1000 + i * 0x100, 1);
    second.stamp(2000 + i * 2000).malloc(0x9000 + i * 0x100, 2);
  }
  const Played run(trace);
  EXPECT_THAT(run.log.lines, ElementsAre("T1 alloc 1000+1", "T2 alloc 9000+2", "T1 alloc 1100+1", "T2 alloc 9100+2",
                                         "T1 alloc 1200+1", "T2 alloc 9200+2", "T1 alloc 1300+1", "T2 alloc 9300+2"));
}

TEST(Timeline, LetsAFreeWaitForTheAllocationOfAnotherThread) {
  TraceBuilder trace;
  auto& taker = trace.bare_thread(100);
  auto& giver = trace.bare_thread(101);
  taker.stamp(1000).free(0x1000).stamp(9000).free(0x2000);            // estimated first …
  giver.stamp(2000).malloc(0x1000, 8).stamp(5000).malloc(0x2000, 8);  // … but it needs this
  const Played run(trace);
  EXPECT_THAT(run.log.lines, ElementsAre("T2 alloc 1000+8", "T1 free 1000 of T2", "T2 alloc 2000+8", "T1 free 2000 of T2"));
  EXPECT_EQ(run.counts.reordered_events, 1u);
  EXPECT_EQ(run.counts.repaired_events, 0u);
}

TEST(Timeline, LetsAnAllocationWaitForTheFreeOfAnotherThread) {
  TraceBuilder trace;
  auto& keeper = trace.bare_thread(100);
  auto& next = trace.bare_thread(101);
  keeper.stamp(0).malloc(0x1000, 8).stamp(100).malloc(0x2000, 1).malloc(0x2100, 1).free(0x1000).stamp(9000).malloc(0x2200, 1);
  next.stamp(200).malloc(0x1000, 16).stamp(8000).free(0x1000);
  const Played run(trace);
  EXPECT_THAT(run.log.lines, ElementsAre("T1 alloc 1000+8", "T1 alloc 2000+1", "T1 alloc 2100+1", "T1 free 1000 of T1",
                                         "T2 alloc 1000+16", "T2 free 1000 of T2", "T1 alloc 2200+1"));
  EXPECT_EQ(run.counts.repaired_events, 0u);
}

TEST(Timeline, MovesABlockOutOfTheWayOfAnotherThread) {
  // T1's realloc gives 0x1000 back at its begin; T2 gets that address before T1's end is recorded.
  TraceBuilder trace;
  auto& mover = trace.bare_thread(100);
  auto& next = trace.bare_thread(101);
  mover.stamp(0).malloc(0x1000, 8).stamp(100).realloc_begin(0x1000).stamp_off_cpu(5000).realloc_end(0x2000, 80);
  next.stamp(200).malloc(0x1000, 16).stamp(6000).free(0x1000);
  const Played run(trace, false, true);
  EXPECT_THAT(run.log.lines,
              ElementsAre("T1 alloc 1000+8", "T2 alloc 1000+16", "T1 resize 1000+8 2000+80", "T2 free 1000 of T2"));
  EXPECT_EQ(run.counts.reordered_events, 0u);
}

TEST(Timeline, LetsAReallocWaitForTheAllocationOfAnotherThread) {
  TraceBuilder trace;
  auto& mover = trace.bare_thread(100);
  auto& giver = trace.bare_thread(101);
  mover.stamp(1000).realloc(0x1000, 0x3000, 77).realloc(0x2000, 0x2000, 66).stamp(9000).malloc(0x5000, 1);
  giver.stamp(2000).malloc(0x1000, 8).malloc(0x2000, 9).stamp(8500).malloc(0x6000, 1);
  const Played run(trace);
  EXPECT_THAT(run.log.lines, ElementsAre("T2 alloc 1000+8", "T1 resize 1000+8 3000+77", "T2 alloc 2000+9",
                                         "T1 resize 2000+9 2000+66", "T2 alloc 6000+1", "T1 alloc 5000+1"));
}

TEST(Timeline, TellsALifeThatCameFirstWithoutEndingTheBlockThatLivesThere) {
  // T1's block lived and ended before T2 got its address, but T1 paused and the estimates put it behind.
  TraceBuilder trace;
  auto& late = trace.bare_thread(100);
  auto& holder = trace.bare_thread(101);
  late.stamp(900).malloc(0x7000, 1).malloc(0x1000, 5).free(0x1000).stamp(100'000).malloc(0x8000, 1);
  holder.stamp(1000).malloc(0x1000, 8).stamp(2000).malloc(0x9000, 1).stamp(10'000'000).free(0x1000);
  const Played run(trace);
  EXPECT_THAT(run.log.lines, ElementsAre("T1 alloc 7000+1", "T2 alloc 1000+8", "T2 alloc 9000+1",
                                         "T1 alloc 1000+5, T1 free, before", "T1 alloc 8000+1", "T2 free 1000 of T2"));
  EXPECT_EQ(run.counts.events, 7u);
  EXPECT_EQ(run.counts.repaired_events, 1u);
  EXPECT_EQ(run.counts.reordered_events, 1u);
}

TEST(Timeline, LetsEachOfTwoThreadsFreeItsOwnWhereTheirBlocksWereExchanged) {
  // T2's block lived and ended before T1 got its address; T1 paused at first, and the estimates put its allocation too early.
  // T2's free is too far away to be seen from there.
  TraceBuilder trace;
  auto& early = trace.bare_thread(100);
  auto& first = trace.bare_thread(101);
  early.stamp(1000).malloc(0x1000, 8);
  for (std::uint64_t i = 0; i < 27; i++) early.malloc(0x20000 + i * 16, 1);
  early.stamp(60'000).malloc(0x9000, 1).stamp(90'000).free(0x1000);
  first.stamp(2200).malloc(0x8000, 1).malloc(0x1000, 5).stamp(2800);
  for (std::uint64_t i = 0; i < 90; i++) first.malloc(0x30000 + i * 16, 1).stamp(2900 + i * 10);
  first.free(0x1000).stamp(50'000).malloc(0x7000, 1);
  const Played run(trace);
  EXPECT_THAT(run.log.lines, testing::Contains("T2 free 1000 of T2"));
  EXPECT_THAT(run.log.lines, testing::Not(testing::Contains("T1 free 1000 of T2")));
  EXPECT_EQ(run.log.reattributions % 2, 0u);
  EXPECT_EQ(run.log.releases, 2u);
  EXPECT_EQ(run.log.unseen, 0u);
  EXPECT_FALSE(run.log.live.contains(0x1000));
}

TEST(Timeline, GivesAnOverdueFreeNoBlockThatItsOwnThreadFreesSoon) {
  // T1 computes for 50 ms, then frees the third of T2's blocks at one address. Nothing says when; T2 itself frees the others.
  TraceBuilder trace;
  auto& spins = trace.bare_thread(100);
  auto& churns = trace.bare_thread(101);
  spins.stamp(1000).malloc(0x7000, 1).free(0x1000).stamp_off_cpu(50'000'000).malloc(0x8000, 1);
  churns.stamp(1'000'000).malloc(0x1000, 1).free(0x1000).malloc(0x1000, 2).free(0x1000).malloc(0x1000, 3);
  churns.stamp(1'001'000).malloc(0x1000, 4).free(0x1000).stamp(60'000'000).malloc(0x9000, 1);
  const Played run(trace);
  EXPECT_THAT(run.log.lines, ElementsAre("T1 alloc 7000+1", "T2 alloc 1000+1", "T2 free 1000 of T2", "T2 alloc 1000+2",
                                         "T2 free 1000 of T2", "T2 alloc 1000+3", "T1 free 1000 of T2", "T2 alloc 1000+4",
                                         "T2 free 1000 of T2", "T1 alloc 8000+1", "T2 alloc 9000+1"));
  EXPECT_EQ(run.counts.reordered_events, 1u);
  EXPECT_EQ(run.counts.repaired_events, 0u);
}

TEST(Timeline, FollowsTheClockWhereEveryEventHasATime) {
  TraceBuilder trace;
  trace.header().clock = format::Clock::event;
  trace.header().events_per_stamp = 1;
  auto& first = trace.bare_thread(100);
  auto& second = trace.bare_thread(101);
  // One address, handed to and fro as fast as it can be: alloc T1, free T2, alloc T2, free T1, …
  for (std::uint64_t tick = 1000; tick < 9000; tick += 40) {
    first.stamp(tick).malloc(0x1000, 8);
    second.stamp(tick + 10).free(0x1000).stamp(tick + 20).malloc(0x1000, 16);
    first.stamp(tick + 30).free(0x1000);
  }
  const Played run(trace);
  ASSERT_EQ(run.log.lines.size(), 800u);
  for (std::size_t i = 0; i < 800; i += 4) {
    EXPECT_EQ(run.log.lines[i], "T1 alloc 1000+8");
    EXPECT_EQ(run.log.lines[i + 1], "T2 free 1000 of T1");
    EXPECT_EQ(run.log.lines[i + 2], "T2 alloc 1000+16");
    EXPECT_EQ(run.log.lines[i + 3], "T1 free 1000 of T2");
  }
  EXPECT_EQ(run.counts.reordered_events, 0u);
}

TEST(Timeline, BreaksTiesOfTheClockByCausality) {
  TraceBuilder trace;
  trace.header().clock = format::Clock::event;
  auto& first = trace.bare_thread(100);
  auto& second = trace.bare_thread(101);
  first.stamp(50).malloc(0x1000, 8).stamp(100).malloc(0x2000, 8);
  second.stamp(99).free(0x2000).stamp(100).free(0x1000);  // clocks of two CPUs a tick apart
  const Played run(trace);
  EXPECT_THAT(run.log.lines, ElementsAre("T1 alloc 1000+8", "T1 alloc 2000+8", "T2 free 2000 of T1", "T2 free 1000 of T1"));
}

// ---- rules for what does not fit ---------------------------------------------------------------------------------
TEST(Timeline, SettlesADebtWithTheAllocationThatCameFirstInTruth) {
  // T1 frees a block that T2 allocated; both windows overlap, but the estimates put the allocation far behind, and T2
  // waits for T1 itself: no order of the estimates works out.
  TraceBuilder trace;
  auto& taker = trace.bare_thread(100);
  auto& giver = trace.bare_thread(101);
  taker.stamp(1000).free(0x1000).malloc(0x2000, 1).stamp(100'000).malloc(0x7000, 1);
  giver.stamp(900).free(0x2000).malloc(0x1000, 8).stamp(100'000).malloc(0x8000, 1);
  const Played run(trace);
  EXPECT_EQ(run.log.allocations, 4u);
  EXPECT_EQ(run.log.releases, 2u);
  EXPECT_EQ(run.log.unknown, 0u);
  EXPECT_EQ(run.live.size(), 2u);
  EXPECT_GE(run.counts.repaired_events, 1u);
}

TEST(Timeline, NeverJoinsAFreeToALaterAllocationOfItsOwnThread) {
  TraceBuilder trace;
  auto& main = trace.bare_thread(100);
  trace.bare_thread(101).stamp(0).malloc(0x9000, 1).stamp(50'000'000).free(0x9000);
  main.stamp(1000).free(0x1000).malloc(0x1000, 8).stamp(100'000).malloc(0x7000, 1);
  const Played run(trace);
  EXPECT_EQ(run.log.allocations, 3u);
  EXPECT_EQ(run.log.unknown, 1u);
  EXPECT_EQ(run.log.live.count(0x1000), 1u);
}

TEST(Timeline, GivesEachEndItsBlockAlsoWhereThousandsOfOthersEndMeanwhile) {
  // T2 freed T1's block and got its address, which T3 freed: T3's free is estimated before T2's, which finds no block then.
  // Until its window ends T4 frees more blocks than are remembered as recent.
  TraceBuilder trace;
  trace.bare_thread(100).stamp(1000).malloc(0x1000, 8).stamp(5000).malloc(0x7000, 1);
  trace.bare_thread(101).stamp(10'100).free(0x1000).malloc(0x1000, 9).stamp(500'000).malloc(0x8000, 1);
  trace.bare_thread(102).stamp(10'000).free(0x1000).stamp(400'000).malloc(0x9000, 1);
  auto& others = trace.bare_thread(103);
  for (std::uint64_t i = 0; i < 20'000; i++) {
    if (i % 16 == 0) others.stamp(10'200 + i / 16 * 10);
    others.malloc(0x100000 + i * 112, 1).free(0x100000 + i * 112);
  }
  const Played run(trace);
  EXPECT_EQ(run.log.unknown, 0u);
  EXPECT_EQ(run.log.releases, 20'002u);
  EXPECT_FALSE(run.log.live.contains(0x1000));
}

TEST(Timeline, LendsAnEndToABlockWhoseAddressIsGivenOutAgain) {
  // T2's free of T1's block is late by its window; T1 gets the address again.
  TraceBuilder trace;
  auto& owner = trace.bare_thread(100);
  auto& other = trace.bare_thread(101);
  owner.stamp(0).malloc(0x1000, 8).stamp(10'000).malloc(0x1000, 9).stamp(20'000).malloc(0x7000, 1);
  other.stamp(9'000).malloc(0x8000, 1);
  for (std::uint64_t i = 0; i < 200; i++) other.malloc(0x20000 + i * 16, 1);  // farther than look-ahead sees
  other.free(0x1000).stamp(60'000).malloc(0x9000, 1);
  const Played run(trace);
  EXPECT_EQ(run.log.releases, 1u);
  EXPECT_EQ(run.log.unknown, 0u);
  EXPECT_EQ(run.log.reattributions, 1u);
  ASSERT_EQ(run.log.live.count(0x1000), 1u);
  EXPECT_EQ(run.log.live.at(0x1000).size, 9u);
  EXPECT_EQ(run.counts.repaired_events, 1u);
}

TEST(Timeline, LetsABlockVanishWhoseEndWasLost) {
  TraceBuilder trace;
  auto& main = trace.bare_thread(100);
  main.stamp(0).malloc(0x1000, 8).lose(10, 10).stamp(10'000).malloc(0x1000, 9).free(0x2000);
  const Played run(trace);
  EXPECT_THAT(run.log.lines, ElementsAre("T1 alloc 1000+8", "vanished 1000 of T1", "T1 alloc 1000+9", "T1 unknown free 2000"));
}

// Programs whose true order is known: threads hand blocks of one size to each other, addresses are used again at once.
struct Handover {
  TraceBuilder trace;
  std::uint64_t allocations = 0, frees = 0;

  Handover(unsigned seed, std::size_t threads, std::uint64_t calls, unsigned stamp_every, bool exact) {
    std::mt19937_64 random(seed);
    std::vector<ThreadBuilder*> thread;
    for (std::size_t i = 0; i < threads; i++) thread.push_back(&trace.bare_thread(static_cast<std::uint32_t>(100 + i)));
    if (exact) trace.header().clock = format::Clock::event;
    std::vector<unsigned> since(threads, stamp_every);
    std::vector<std::vector<std::uint64_t>> mailbox(threads), free_list(threads);
    std::uint64_t fresh = 0x10000, tick = 0;
    for (std::uint64_t call = 0; call < calls; call++) {
      const std::size_t who = random() % threads;
      tick += 1 + random() % 80;
      if (++since[who] > stamp_every) {
        since[who] = 1;
        thread[who]->stamp(tick);
      }
      if (!mailbox[who].empty() && random() % 2) {
        const std::uint64_t block = mailbox[who].back();
        mailbox[who].pop_back();
        thread[who]->free(block);
        frees++;
        free_list[random() % 4 ? who : random() % threads].push_back(block);
      } else {
        std::uint64_t block = fresh;
        if (free_list[who].empty()) {
          fresh += 32;
        } else {
          block = free_list[who].back();
          free_list[who].pop_back();
        }
        thread[who]->malloc(block, 24);
        allocations++;
        mailbox[random() % threads].push_back(block);
      }
    }
  }
};

TEST(Timeline, NeverShowsAnAddressTwiceNorAnUnknownFreeHoweverFastBlocksAreHandedOver) {
  for (const std::size_t threads : {2u, 3u, 16u})
    for (unsigned seed = 1; seed <= 6; seed++) {
      const Handover program(seed, threads, 20'000, 32, false);
      const Played run(program.trace);
      EXPECT_EQ(run.log.allocations, program.allocations);
      EXPECT_EQ(run.log.unknown, 0u) << threads << " threads, seed " << seed;
      EXPECT_EQ(run.log.vanishings, 0u);
      EXPECT_EQ(run.log.releases, program.frees) << threads << " threads, seed " << seed;
      EXPECT_EQ(run.live.size() + run.log.unseen, program.allocations - program.frees);
      // Sixteen threads at once are beyond what stamps can tell: an end may be told of a block that lives on.
      EXPECT_LE(run.log.unseen, threads == 16 ? 2u : 0u) << threads << " threads, seed " << seed;
      EXPECT_EQ(run.counts.events, program.allocations + program.frees);
    }
}

TEST(Timeline, IsExactWithAClockAtEveryEvent) {
  const Handover program(7, 16, 50'000, 1, true);
  const Played run(program.trace);
  EXPECT_EQ(run.log.releases, program.frees);
  EXPECT_EQ(run.counts.reordered_events, 0u);
  EXPECT_EQ(run.counts.repaired_events, 0u);
  EXPECT_EQ(run.live.size(), program.allocations - program.frees);
}

TEST(Timeline, MakesTheSameOfTheSameTrace) {
  const Handover program(3, 8, 20'000, 32, false);
  EXPECT_EQ(Played(program.trace, true).log.lines, Played(program.trace, true).log.lines);
}

TEST(Timeline, TakesAStampFarBeyondTheEndForDamage) {
  TraceBuilder trace;
  trace.header().end_tick = 3000;
  trace.header().pairs[1] = {3000, trace.header().origin + 3000};
  trace.bare_thread(100).stamp(1000).malloc(0x1000, 1).stamp(1ull << 54).malloc(0x2000, 2).stamp(2000).malloc(0x3000, 3);
  const Played run(trace, true);
  EXPECT_EQ(run.counts.last_tick, 2000u);
  EXPECT_EQ(run.live.size(), 3u);
}

// ---- many threads ------------------------------------------------------------------------------------------------
TEST(Timeline, FollowsTenThousandShortThreads) {
  TraceBuilder trace;
  auto& main = trace.thread("main", 100);
  for (std::uint32_t i = 0; i < 10'000; i++) {
    const trace::Tick begin = 1000 + i * 1000;
    auto& worker = trace.thread(fmt::format("worker {}", i), 200 + i % 50, begin);
    worker.malloc(0x100000 + i * 16, i % 100).malloc(0x1000, 8).free(0x1000).stamp(begin + 500).end();
    main.stamp(begin + 900).free(0x100000 + i * 16);
  }
  const Played run(trace);
  EXPECT_EQ(run.counts.events, 40'000u);
  EXPECT_EQ(run.counts.reordered_events, 0u);
  EXPECT_EQ(run.log.unknown, 0u);
  EXPECT_THAT(run.live, IsEmpty());
  EXPECT_EQ(run.log.lines[1], "T2 start 200 'worker 0' 0");
  EXPECT_EQ(run.log.lines.size(), 60'001u);
}

TEST(Timeline, TellsNamesThatOneThreadGivesToAnother) {
  TraceBuilder trace;
  auto& main = trace.thread("main", 100);
  trace.thread("java", 101, 10).stamp(100).malloc(0x1000, 1).stamp(300).free(0x1000);
  main.stamp(200).name("GC Thread#0", 101).name("nobody", 999);
  const Played run(trace);
  EXPECT_THAT(run.log.lines, ElementsAre("T1 start 100 'main' 0", "T2 start 101 'java' 0", "T2 alloc 1000+1",
                                         "T2 name 'GC Thread#0'", "T2 free 1000 of T2"));
}

TEST(Timeline, TellsOfThreadsOfJavasAlsoWhereTheyHaveNoMoreEvents) {
  TraceBuilder trace;
  auto& main = trace.thread("main", 100);
  trace.thread("java", 101, 10).stamp(20).malloc(0x1000, 1);
  main.stamp(200).java("main", false).name("Finalizer", 101).java("system", true, 101).java("nobody's", true, 999);
  const Played run(trace);
  EXPECT_THAT(run.log.lines,
              ElementsAre("T1 start 100 'main' 0", "T2 start 101 'java' 0", "T2 alloc 1000+1", "T1 of Java's, in 'main'",
                          "T2 name 'Finalizer'", "T2 of Java's, in 'system', daemon"));
}

// ---- snapshots, stopping on the way, progress --------------------------------------------------------------------
TraceBuilder with_snapshots() {
  TraceBuilder trace;
  trace.bare_thread(100).stamp(100).malloc(0x1000, 1).stamp(200).malloc(0x2000, 2).stamp(300).malloc(0x3000, 3);
  for (const trace::Tick tick : {50, 200, 250, 900}) {
    trace::Snapshot snapshot;
    snapshot.begin = tick;
    trace.snapshot(snapshot);
  }
  return trace;
}

TEST(Timeline, PassesSnapshotsAtTheirPlaceInTime) {
  EXPECT_THAT(Played(with_snapshots()).log.lines,
              ElementsAre("snapshot 50", "T1 alloc 1000+1", "T1 alloc 2000+2", "snapshot 200", "snapshot 250",
                          "T1 alloc 3000+3", "snapshot 900"));
}

TEST(Timeline, DecodesOnlyTheSnapshotsThatWereChosen) {
  const TemporaryFile file(with_snapshots().bytes());
  const Reader reader(file.path());
  EventLog log;
  Timeline timeline(reader, {&log});
  timeline.choose_snapshots([](std::size_t index) { return index == 2; });
  timeline.run();
  EXPECT_THAT(log.lines, ElementsAre("T1 alloc 1000+1", "T1 alloc 2000+2", "snapshot 250", "T1 alloc 3000+3"));
}

TEST(Timeline, StopsAtATickAndGoesOn) {
  const TemporaryFile file(with_snapshots().bytes());
  const Reader reader(file.path());
  EventLog log;
  Timeline timeline(reader, {&log});
  EXPECT_EQ(timeline.run(200).events, 2u);
  EXPECT_THAT(log.lines, ElementsAre("snapshot 50", "T1 alloc 1000+1", "T1 alloc 2000+2", "snapshot 200"));
  EXPECT_EQ(timeline.live_blocks(), 2u);
  EXPECT_EQ(timeline.run().events, 3u);
  EXPECT_EQ(log.lines.back(), "snapshot 900");
}

TEST(Timeline, ReportsProgressUpToOne) {
  TraceBuilder trace;
  auto& main = trace.bare_thread(100);
  for (std::uint64_t i = 0; i < 3'000'000; i++) {
    if (i % 32 == 0) main.stamp(i * 10);
    main.malloc(0x1000, 8).free(0x1000);
    i++;
  }
  const TemporaryFile file;
  trace.write(file.path());
  const Reader reader(file.path());
  std::vector<double> shares;
  Timeline(reader, {}).run(std::nullopt, [&](double share) { shares.push_back(share); });
  ASSERT_GE(shares.size(), 3u);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.back(), 1.0);
}

TEST(Timeline, RunsATraceWithoutThreads) {
  const TemporaryFile file(TraceBuilder().bytes());
  const Reader reader(file.path());
  EXPECT_EQ(Timeline(reader, {}).run().events, 0u);
}

}  // namespace
}  // namespace heapspy::test
