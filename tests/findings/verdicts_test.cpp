// Each verdict on the shape it is made for, and on its look-alikes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/findings/some_facts.h"

namespace heapspy::findings {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Verdicts, OneByteThatPlugsAHeapIsTheOnlyFinding) {
  const auto found = judge(fragmentation());
  ASSERT_THAT(kinds(found), ElementsAre("plug"));
  EXPECT_EQ(found[0].bytes, 496 * kMiB);
  EXPECT_EQ(found[0].severity, Severity::high);
  EXPECT_EQ(found[0].moment, "at the end (2.0 s)");
  EXPECT_EQ(
      found[0].text,
      "One live block of 1 byte at 0x5555aaaa04a0 (thread fragmentation, 47.0 ms old) is the plug of the main heap: none of "
      "the 496.0 MiB of free memory under it can leave by shrinking the heap while it lives.");
  EXPECT_EQ(found[0].fix, "malloc_trim(0) at that moment");
  EXPECT_EQ(found[0].fix_saves_bytes, 496 * kMiB);
  EXPECT_TRUE(found[0].cost.has_value());
}

TEST(Verdicts, LockedMemoryIsOfferedNoTrim) {
  Facts facts = fragmentation();
  facts.locked = true;
  for (const std::uint64_t blocks : {1u, 41u}) {  // plugged, retained
    facts.arenas[0].live_blocks = blocks;
    const auto found = judge(facts);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].fix, std::nullopt);
    EXPECT_EQ(found[0].fix_saves_bytes, std::nullopt);
    EXPECT_THAT(found[0].text, HasSubstr("has locked its memory"));
  }
}

TEST(Verdicts, ARunningProcessIsOfferedTheCommandWithItsPid) {
  Facts facts = fragmentation();
  facts.running = true;
  EXPECT_EQ(judge(facts)[0].fix, "heapspy trim 77");
}

TEST(Verdicts, ManyLiveBlocksMakeItRetainedAndNotAPlug) {
  Facts facts = fragmentation();
  facts.arenas[0].live_blocks = 41;
  const auto found = judge(facts);
  ASSERT_THAT(kinds(found), ElementsAre("retained"));
  EXPECT_EQ(found[0].bytes, 496 * kMiB);
  EXPECT_THAT(found[0].text, HasSubstr("in the main heap."));
  EXPECT_THAT(found[0].text, HasSubstr("twice the largest mapped block ever freed, unless it is set before start."));
  EXPECT_THAT(found[0].text, HasSubstr("this is not a leak"));
  EXPECT_THAT(found[0].text, HasSubstr("no threshold returns that"));
  EXPECT_THAT(*found[0].to_try, HasSubstr("heapspy replay TRACE --with default,trim=5"));
}

TEST(Verdicts, AThresholdIsOfferedWhereItReturnsSomething) {
  Facts facts = fragmentation();
  facts.arenas[0].live_blocks = 41;
  facts.arenas[0].trimmable_large_bytes = 400 * kMiB;  // of blocks that would have been mappings of their own
  EXPECT_THAT(*judge(facts)[0].to_try, HasSubstr("MALLOC_TRIM_THRESHOLD_=131072, set before start"));
  facts.arenas[0].trimmable_large_bytes = 0;
  facts.arenas[0].plug->free_below_bytes = 10 * kMiB;  // the rest is the free end of the heap
  EXPECT_THAT(*judge(facts)[0].to_try, HasSubstr("MALLOC_TRIM_THRESHOLD_=131072, set before start"));
}

// A snapshot that comes when a program has just begun to free what it filled: its RSS could not have been lower.
TEST(Verdicts, WhatIsFreeAtAPeakThatLiveMemoryFilledIsNotRetained) {
  Facts facts = process(201 * kMiB);
  facts.arenas = {main_heap(135 * kMiB, 135000, 65 * kMiB, 4096)};
  facts.arenas[0].resident_bytes = 200 * kMiB;
  facts.live_bytes = 135 * kMiB;
  facts.peak_live_bytes = 199 * kMiB;
  facts.at_peak = true;
  EXPECT_THAT(kinds(judge(facts)), IsEmpty());
  facts.at_peak = false;
  EXPECT_THAT(kinds(judge(facts)), ElementsAre("retained"));
  facts.at_peak = true;
  facts.peak_live_bytes = 150 * kMiB;
  EXPECT_THAT(kinds(judge(facts)), ElementsAre("retained"));
  facts.arena_needs = {{1, 198 * kMiB}};  // they were small: a quarter of what they took was headers and rounding
  EXPECT_THAT(kinds(judge(facts)), IsEmpty());
}

TEST(Verdicts, WhatIsPinnedAtAPeakIsNotRetained) {
  Facts facts = process(201 * kMiB);
  facts.arenas = {main_heap(2 * kMiB, 20000, 20 * kMiB, 4096)};
  facts.arenas[0].cached_bytes = 78 * kMiB;
  facts.arenas[0].resident_bytes = 100 * kMiB;
  facts.live_bytes = 2 * kMiB;
  facts.peak_live_bytes = 22 * kMiB;
  facts.at_peak = true;
  EXPECT_THAT(kinds(judge(facts)), IsEmpty());
}

TEST(Verdicts, ATrimThresholdThatIsSetIsNotOfferedAgain) {
  Facts facts = fragmentation();
  facts.arenas[0].live_blocks = 41;
  facts.trim_threshold_setting = "MALLOC_TRIM_THRESHOLD_=131072";
  const auto found = judge(facts);
  EXPECT_THAT(found[0].text, HasSubstr("(here MALLOC_TRIM_THRESHOLD_=131072)"));
  EXPECT_THAT(*found[0].to_try, testing::Not(HasSubstr("THRESHOLD")));
  facts.arenas[0].plug.reset();
  EXPECT_EQ(judge(facts)[0].to_try, std::nullopt);
}

TEST(Verdicts, PlugAndRetainedShareTheTrimmableBytesWithoutOverlap) {
  Facts facts = fragmentation();
  facts.arenas.push_back(secondary(2, 1 * kMiB, 30 * kMiB, 0));
  const auto found = judge(facts);
  ASSERT_THAT(kinds(found), ElementsAre("plug", "retained"));
  EXPECT_EQ(found[0].bytes, 496 * kMiB);
  EXPECT_EQ(found[1].bytes, 30 * kMiB);
  EXPECT_THAT(found[1].text, HasSubstr("keeps, in arena 2."));
}

TEST(Verdicts, WithoutResidencyNothingIsSaidAboutFreePages) {
  Facts facts = fragmentation();
  ArenaFacts& arena = facts.arenas[0];
  arena.trimmable_bytes = arena.pinned_bytes = arena.cached_bytes = arena.resident_bytes = std::nullopt;
  facts.rss_bytes.reset();
  EXPECT_THAT(judge(facts), IsEmpty());
}

TEST(Verdicts, AnotherAllocatorIsNotJudgedByGlibcsRules) {
  Facts facts = fragmentation();
  facts.glibc = false;
  EXPECT_THAT(judge(facts), IsEmpty());
}

// examples/arena_growth: 32 threads with bursts that do not overlap.
Facts arena_growth_facts() {
  Facts facts = process(263 * kMiB);
  facts.arenas = {main_heap(kMiB / 10, 100, 10 * kMiB, kMiB / 2)};
  for (int i = 2; i <= 16; i++) facts.arenas.push_back(secondary(i, kMiB / 10, 15 * kMiB, 0));
  return facts;
}

TEST(Verdicts, ManyLittleUsedArenasAreAGrowthThatIsPartOfWhatIsRetained) {
  const auto found = judge(arena_growth_facts());
  ASSERT_THAT(kinds(found), ElementsAre("retained", "arena_growth"));
  EXPECT_EQ(found[0].bytes, 235 * kMiB);
  EXPECT_EQ(found[1].bytes, 225 * kMiB);
  EXPECT_THAT(found[1].part_of, ElementsAre("retained"));
  EXPECT_THAT(found[1].text, HasSubstr("225.0 MiB lie in 15 secondary arenas (limit 16)"));
  EXPECT_THAT(found[1].text, HasSubstr("Filled by threads named pool-#-thread-#."));
}

TEST(Verdicts, ArenaMaxIsToBeTriedBecauseItsSavingIsNotPredicted) {
  const Finding growth = *arena_growth(arena_growth_facts());
  EXPECT_EQ(growth.fix, std::nullopt);
  EXPECT_EQ(growth.fix_saves_bytes, std::nullopt);
  EXPECT_THAT(*growth.to_try, HasSubstr("heapspy compare --with default,arena_max=1,arena_max=2 -- CMD"));
}

TEST(Verdicts, ArenasThatAreWellUsedAreNoGrowth) {
  Facts facts = arena_growth_facts();
  for (ArenaFacts& arena : facts.arenas) {
    arena.live_bytes = 16 * kMiB;
    arena.resident_bytes = 31 * kMiB;
  }
  EXPECT_EQ(arena_growth(facts), std::nullopt);
}

TEST(Verdicts, ThreeSecondaryArenasAreNoGrowth) {
  Facts facts = arena_growth_facts();
  facts.arenas.resize(4);
  EXPECT_EQ(arena_growth(facts), std::nullopt);
}

TEST(Verdicts, ArenaMaxThatIsSetIsNotOfferedAgain) {
  Facts facts = arena_growth_facts();
  facts.arena_max_setting = "MALLOC_ARENA_MAX=8";
  EXPECT_EQ(arena_growth(facts), std::nullopt);
}

TEST(Verdicts, PinnedBytesNameTheThreadsWhoseBlocksPin) {
  Facts facts = process(300 * kMiB);
  facts.arenas = {main_heap(3 * kMiB, 60'000, 0, 150 * kMiB)};
  facts.pinners = {{"session-keeper", 140 * kMiB, 50'000}, {"other", 10 * kMiB, 10'000}, {"idle", 0, 0}};
  const auto found = judge(facts);
  ASSERT_THAT(kinds(found), ElementsAre("pinned"));
  EXPECT_EQ(found[0].bytes, 150 * kMiB);
  EXPECT_EQ(
      found[0].text,
      "Free bytes on pages that also hold one of 60 000 live blocks (3.0 MiB live in these heaps): no trim can return them. "
      "100 % of it in the main heap, so MALLOC_ARENA_MAX does not help either. Pinned by blocks of session-keeper (140.0 "
      "MiB), other (10.0 MiB).");
  EXPECT_EQ(found[0].fix, std::nullopt);
}

TEST(Verdicts, TopsOfSecondaryArenasAreToldFromWhatTrimReturns) {
  Facts facts = process(300 * kMiB);
  facts.arenas = {main_heap(kMiB, 1000, 0, 0), secondary(2, kMiB, 0, 40 * kMiB), secondary(3, kMiB, 0, 30 * kMiB)};
  facts.arenas[1].secondary_top_bytes = 39 * kMiB;
  facts.arenas[2].secondary_top_bytes = 30 * kMiB;
  facts.arenas[1].thread_cache_bytes = kMiB;
  const auto found = judge(facts);
  ASSERT_THAT(kinds(found), ElementsAre("secondary_tops"));
  EXPECT_EQ(found[0].bytes, 69 * kMiB);
  EXPECT_THAT(found[0].text, HasSubstr("Resident free tops of 2 secondary arenas, which malloc_trim leaves alone"));
  EXPECT_EQ(found[0].fix, std::nullopt);
}

TEST(Verdicts, WhatThreadCachesKeepIsNoTopOfAnArena) {
  Facts facts = process(60 * kMiB);
  facts.arenas = {main_heap(kMiB, 1000, 0, 0), secondary(2, kMiB, 0, 6 * kMiB), secondary(3, kMiB, 0, 6 * kMiB)};
  for (ArenaFacts& arena : facts.arenas) arena.thread_cache_bytes = 5 * kMiB;
  const auto found = judge(facts);
  ASSERT_THAT(kinds(found), ElementsAre("thread_caches"));
  EXPECT_EQ(found[0].bytes, 15 * kMiB);
  EXPECT_THAT(*found[0].to_try, HasSubstr("tcache_count=1"));
  EXPECT_EQ(found[0].fix, std::nullopt);
}

TEST(Verdicts, MostOfRssOutsideMallocIsNamedByItsLargestPart) {
  Facts facts = process(600 * kMiB);
  facts.parts = {{"malloc: live", PartKind::malloc, 60 * kMiB},
                 {"thread stacks", PartKind::other, 500 * kMiB},
                 {"heapspy itself", PartKind::recorder, 10 * kMiB},
                 {"other", PartKind::other, 30 * kMiB}};
  const auto found = judge(facts);
  ASSERT_THAT(kinds(found), ElementsAre("not_malloc"));
  EXPECT_EQ(found[0].bytes, 530 * kMiB);
  EXPECT_EQ(found[0].text,
            "88 % of RSS lies outside the allocator; the largest part is thread stacks, 500.0 MiB. No allocator setting "
            "changes it.");
}

// What another allocator keeps has no part of its own, so it cannot be called "not malloc's".
TEST(Verdicts, WhatAnotherAllocatorKeepsIsNotCalledNotMallocs) {
  Facts facts = process(300 * kMiB);
  facts.glibc = false;
  facts.parts = {{"other", PartKind::other, 290 * kMiB}};
  EXPECT_THAT(kinds(judge(facts)), IsEmpty());
}

TEST(Verdicts, ASmallProcessOfLibrariesOnlyIsNoFinding) {
  Facts facts = process(3 * kMiB);
  facts.parts = {{"malloc: live", PartKind::malloc, 100'000}, {"libraries and files", PartKind::other, 2 * kMiB}};
  facts.arenas = {main_heap(100'000, 50, 0, 9000)};
  EXPECT_THAT(judge(facts), IsEmpty());
}

TEST(Verdicts, StacksOfThreadsArePartOfWhatIsNotMallocs) {
  Facts facts = process(200 * kMiB);
  facts.parts = {{"malloc: live", PartKind::malloc, 20 * kMiB}, {"thread stacks", PartKind::other, 160 * kMiB}};
  facts.groups = {{"malloc", 1, 20 * kMiB, 0, 0}, {"thread stacks", 640, 160 * kMiB, 0, 0}};
  auto found = judge(facts);
  ASSERT_THAT(kinds(found), ElementsAre("not_malloc", "thread_stacks"));
  EXPECT_THAT(found[1].part_of, ElementsAre("not_malloc"));
  EXPECT_THAT(found[1].text, HasSubstr("640 thread stacks hold 160.0 MiB, 256.0 KiB each on average"));
  Facts deep = facts;
  deep.groups[1].mappings = 1;
  EXPECT_THAT(thread_stacks(deep)->text, HasSubstr("The stack of the only thread holds 160.0 MiB: a stack keeps"));
  EXPECT_THAT(*thread_stacks(deep)->to_try, HasSubstr("recursion"));
  facts.groups[1].huge_bytes = 120 * kMiB;
  EXPECT_THAT(thread_stacks(facts)->text, HasSubstr("Of it, 120.0 MiB are huge pages"));
  facts.groups[1].bytes = 30 * kMiB;  // what threads cost anywhere
  EXPECT_EQ(thread_stacks(facts), std::nullopt);
}

TEST(Verdicts, HugePagesAreADiseaseOnlyWhereTheyAreMostlyFree) {
  Facts facts = process(220 * kMiB);
  facts.arenas = {main_heap(20 * kMiB, 60'000, 180 * kMiB, 0)};
  facts.groups = {{"malloc", 1, 200 * kMiB, 0, 190 * kMiB}};
  EXPECT_EQ(huge_pages(facts)->bytes, 170 * kMiB);  // the live 20 may all lie in huge pages
  EXPECT_THAT(judge(facts)[1].part_of, ElementsAre("retained"));
  facts.groups[0].huge_bytes = 0;
  EXPECT_EQ(huge_pages(facts), std::nullopt);
  facts.groups[0].huge_bytes = 190 * kMiB;
  facts.arenas = {main_heap(150 * kMiB, 60'000, 50 * kMiB, 0)};
  EXPECT_EQ(huge_pages(facts), std::nullopt);
}

TEST(Verdicts, TheRecorderItselfIsToldWhereItIsATenth) {
  Facts facts = process(60 * kMiB);
  facts.parts = {{"malloc: live", PartKind::malloc, 50 * kMiB}, {"heapspy itself", PartKind::recorder, 10 * kMiB}};
  ASSERT_THAT(kinds(judge(facts)), ElementsAre("recorder"));
  EXPECT_EQ(judge(facts)[0].severity, Severity::low);
  facts.parts[1].bytes = 5 * kMiB;
  EXPECT_THAT(judge(facts), IsEmpty());
}

TEST(Verdicts, TheDynamicThresholdIsAPartOfWhatIsRetainedWithTheSettingThatEndsIt) {
  Facts facts = fragmentation();
  facts.arenas[0].live_blocks = 41;
  facts.arenas[0].trimmable_large_bytes = 400 * kMiB;
  EXPECT_EQ(dynamic_threshold(facts), std::nullopt);  // nothing has raised it
  facts.threshold = {160'000, 163'840, 327'680, 2000, 0.5};
  const auto found = judge(facts);
  ASSERT_THAT(kinds(found), ElementsAre("retained", "dynamic_threshold"));
  EXPECT_EQ(found[1].bytes, 400 * kMiB);
  EXPECT_THAT(found[1].part_of, ElementsAre("retained"));
  EXPECT_THAT(found[1].text, HasSubstr("the free of one of 156.2 KiB at 500.0 ms raised that threshold to 160.0 KiB"));
  EXPECT_EQ(found[1].fix_saves_bytes, 400 * kMiB);
  EXPECT_THAT(*found[1].fix, HasSubstr("MALLOC_TRIM_THRESHOLD_=131072, set before start"));
  EXPECT_THAT(*found[1].cost, HasSubstr("2 000 blocks become mappings of their own"));
  facts.trim_threshold_setting = "MALLOC_MMAP_THRESHOLD_=131072";
  EXPECT_EQ(dynamic_threshold(facts), std::nullopt);
}

TEST(Verdicts, ArenaMaxIsAFixWhereItsSavingIsPredictedAndThreadsDoNotCompete) {
  Facts facts = arena_growth_facts();  // 236.6 MiB resident, of them 225 free in secondary arenas
  facts.arena_needs = {{1, 10 * kMiB}, {2, 20 * kMiB}, {4, 40 * kMiB}};
  Finding growth = *arena_growth(facts);
  EXPECT_EQ(*growth.fix, "MALLOC_ARENA_MAX=2, set before start");
  EXPECT_THAT(*growth.fix_saves_bytes, testing::AllOf(testing::Gt(215 * kMiB), testing::Lt(218 * kMiB)));
  EXPECT_THAT(*growth.cost, HasSubstr("lock waits, few here"));
  facts.secondary_arenas = 15;
  facts.concurrency = {900'000, 2e6, 5.5};
  growth = *arena_growth(facts);
  EXPECT_EQ(growth.fix, std::nullopt);
  EXPECT_THAT(growth.text, HasSubstr("5.5 threads take arenas' locks at once"));
  EXPECT_THAT(*growth.to_try, testing::Not(HasSubstr("arena_max")));
}

TEST(Verdicts, ThreadsThatCompeteAreAWarningAndNoSaving) {
  Facts facts = process(10 * kMiB);
  facts.secondary_arenas = 15;
  facts.concurrency = {900'000, 2e6, 5.5};
  const auto found = judge(facts);
  ASSERT_THAT(kinds(found), ElementsAre("contention"));
  EXPECT_EQ(found[0].bytes, 0u);
  EXPECT_EQ(found[0].fix, std::nullopt);
  EXPECT_THAT(found[0].text, HasSubstr("Fewer arenas are not advised here."));
  facts.arena_max_setting = "MALLOC_ARENA_MAX=2";
  EXPECT_THAT(contention(facts)->text, HasSubstr("With MALLOC_ARENA_MAX=2 they wait for each other."));
  facts.concurrency.threads_at_once = 1.2;
  EXPECT_EQ(contention(facts), std::nullopt);
}

TEST(Verdicts, PinsAreMendedAtTheFewSitesThatHoldNearlyAll) {
  Facts facts = process(300 * kMiB);
  facts.arenas = {main_heap(3 * kMiB, 60'000, 0, 150 * kMiB)};
  facts.freed_sites = {{"open (a.cpp:1)", 1000, 2 * kMiB, 20 * kMiB},
                       {"note (a.cpp:2)", 1000, 1 * kMiB, 140 * kMiB},
                       {"rest (a.cpp:3)", 10, 1000, 141 * kMiB}};
  const Finding found = *pinned(facts);
  EXPECT_THAT(*found.fix, HasSubstr("of these 2 sites"));
  EXPECT_EQ(found.fix_saves_bytes, (140 - 3) * kMiB);
}

TEST(Verdicts, ThousandsOfExecutableMappingsAreToldWithTheirPageTables) {
  Facts facts = process(3 * kMiB);
  facts.mappings = 4'120;
  facts.executable_mappings = 4'004;
  facts.page_table_bytes = 48 * kMiB;
  const auto found = judge(facts);
  ASSERT_THAT(kinds(found), ElementsAre("many_mappings"));
  EXPECT_EQ(found[0].bytes, 48 * kMiB);
  EXPECT_THAT(found[0].text, HasSubstr("4 120 mappings, 4 004 of them executable"));
  facts.mappings = 400;
  facts.executable_mappings = 150;
  EXPECT_THAT(judge(facts), IsEmpty());
}

TEST(Verdicts, WhatIsSmallOrASmallShareIsNoFinding) {
  Facts facts = process(100 * kMiB);
  facts.arenas = {main_heap(kMiB, 1000, 3 * kMiB, 0)};  // 3 % of RSS, but 3 MiB
  EXPECT_THAT(judge(facts), IsEmpty());
  facts = process(10'000 * kMiB);
  facts.arenas = {main_heap(kMiB, 1000, 100 * kMiB, 0)};  // 100 MiB, but 1 % of RSS
  EXPECT_THAT(judge(facts), IsEmpty());
}

TEST(Verdicts, OfTwoMomentsEachKindComesFromWhereItIsLarger) {
  Facts peak = process(300 * kMiB);
  peak.moment = "at the RSS peak (1.0 s)";
  peak.arenas = {main_heap(100 * kMiB, 60'000, 20 * kMiB, 150 * kMiB)};
  Facts end = fragmentation();
  end.arenas[0].pinned_bytes = 10 * kMiB;
  const auto found = larger_of(judge(peak), judge(end));
  ASSERT_THAT(kinds(found), ElementsAre("plug", "pinned"));  // the peak's `retained` gives way with its family
  EXPECT_EQ(found[0].moment, "at the end (2.0 s)");
  EXPECT_EQ(found[1].moment, "at the RSS peak (1.0 s)");
  EXPECT_EQ(found[1].bytes, 150 * kMiB);
}

TEST(Verdicts, OfTwoEqualMomentsNothingIsToldTwice) {
  EXPECT_THAT(kinds(larger_of(judge(fragmentation()), judge(fragmentation()))), ElementsAre("plug"));
}

}  // namespace
}  // namespace heapspy::findings
