// What grows to the end of a run is a leak; what is built up once, comes and goes, or is work at hand is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/findings/some_facts.h"

namespace heapspy::findings {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Live bytes at 100 points over 10 s.
Facts curve(std::uint64_t (*live)(int)) {
  Facts facts = process(200 * kMiB);
  for (int i = 0; i <= 100; i++) {
    facts.timeline.push_back({i * 0.1, live(i)});
    facts.peak_live_bytes = std::max(facts.peak_live_bytes, live(i));
  }
  facts.end_s = 10;
  facts.end_live_bytes = live(100);
  facts.bytes_allocated = 10'000 * kMiB;
  facts.sizes_at_end = {{16, 32, 5000, 10, 240}, {512, 1024, 2'000'000, 100'000, 99 * kMiB}};
  return facts;
}

TEST(Verdicts, SteadyGrowthIsALeakWithItsSlopeAndSize) {
  const auto found = judge(curve([](int i) { return static_cast<std::uint64_t>(i) * kMiB; }));
  ASSERT_THAT(kinds(found), ElementsAre("leak"));
  EXPECT_EQ(found[0].bytes, 75 * kMiB);  // from 2.5 s on
  EXPECT_EQ(found[0].moment, "");
  EXPECT_THAT(found[0].text, HasSubstr("by 10.0 MiB a second (from 25.0 MiB at 2.5 s to 100.0 MiB at 10.0 s)"));
  EXPECT_THAT(found[0].text,
              HasSubstr("100 000 blocks of 512 to 1023 bytes, 99.0 MiB never freed. No allocator setting helps."));
  EXPECT_EQ(found[0].fix, std::nullopt);
  EXPECT_EQ(found[0].to_try, std::nullopt);
}

TEST(Verdicts, ASawtoothIsNotALeak) {
  EXPECT_THAT(judge(curve([](int i) { return (static_cast<std::uint64_t>(i) % 10 + 1) * 10 * kMiB; })), IsEmpty());
}

TEST(Verdicts, WhatIsBuiltUpAtTheStartIsNotALeak) {
  EXPECT_THAT(judge(curve([](int i) { return std::min<std::uint64_t>(static_cast<std::uint64_t>(i), 25) * 4 * kMiB; })),
              IsEmpty());
}

TEST(Verdicts, GrowthThatIsGivenBackIsNotALeak) {
  EXPECT_THAT(judge(curve([](int i) { return i > 80 ? kMiB : static_cast<std::uint64_t>(i) * kMiB; })), IsEmpty());
}

// Interpreters free at their exit what they have leaked until then.
TEST(Verdicts, GrowthThatIsFreedOnlyAsTheProgramEndsIsALeakAndNothingRetained) {
  Facts facts = curve([](int i) { return i == 100 ? kMiB : static_cast<std::uint64_t>(i) * kMiB; });
  facts.arenas = {main_heap(kMiB, 1000, 90 * kMiB, 0)};
  facts.live_bytes = kMiB;
  const auto found = judge(facts);
  ASSERT_THAT(kinds(found), ElementsAre("leak"));
  EXPECT_EQ(found[0].bytes, 74 * kMiB);  // from 2.5 s to 9.9 s
  EXPECT_THAT(found[0].text, HasSubstr("to 99.0 MiB at 9.9 s), and is freed only as the program ends."));
  EXPECT_THAT(found[0].text, testing::Not(HasSubstr("Most of what is left")));
  Facts flat = curve([](int i) { return i == 100 ? kMiB : 99 * kMiB; });  // it held what it needed
  flat.arenas = facts.arenas;
  flat.live_bytes = kMiB;
  EXPECT_THAT(judge(flat), IsEmpty());
  facts.end_s = 0.5;  // too short to say
  EXPECT_THAT(kinds(judge(facts)), ElementsAre("retained"));
}

TEST(Verdicts, AProgramThatLoadsForLongAndFreesAllAsItEndsIsNotLeaking) {
  Facts facts = curve([](int i) { return i == 100 ? 1 : static_cast<std::uint64_t>(i) * kMiB; });
  facts.bytes_allocated = 99 * kMiB;
  facts.sizes_at_end = {{1024, 2048, 100'000, 0, 0}, {1, 2, 1, 1, 1}};
  EXPECT_THAT(judge(facts), IsEmpty());
}

TEST(Verdicts, OneBufferThatGrowsIsNoLeak) {
  Facts facts = curve([](int i) { return static_cast<std::uint64_t>(i) * kMiB; });
  facts.sizes_at_end = {{256, 512, 100'000, 20, 8000}, {64 * kMiB, 128 * kMiB, 100, 1, 99 * kMiB}};
  EXPECT_THAT(judge(facts), IsEmpty());
  facts.sizes_at_end[1] = {200 * kMiB, 400 * kMiB, 1, 1, 300 * kMiB};  // beside a large one other blocks grow
  facts.sizes_at_end[0].live_blocks = 200'000, facts.sizes_at_end[0].live_bytes = 90 * kMiB;
  EXPECT_THAT(kinds(judge(facts)), ElementsAre("leak"));
  facts.sizes_at_end.resize(1);
  EXPECT_THAT(kinds(judge(facts)), ElementsAre("leak"));
}

TEST(Verdicts, FewLargeBlocksThatStayAmongManyThatGoAreALeak) {
  Facts facts = curve([](int i) { return static_cast<std::uint64_t>(i) * kMiB; });
  facts.bytes_allocated = 130 * kMiB;
  facts.sizes_at_end = {{256, 512, 100'000, 0, 0}, {kMiB, 2 * kMiB, 100, 100, 100 * kMiB}};
  EXPECT_THAT(kinds(judge(facts)), ElementsAre("leak"));
  facts.sizes_at_end[0].allocations = 1000;  // a program that loads
  EXPECT_THAT(judge(facts), IsEmpty());
}

TEST(Verdicts, ALeakAmongMemoryThatComesAndGoesIsToldByItsSite) {
  Facts facts = curve(
      [](int i) { return (static_cast<std::uint64_t>(i) % 10 + 1) * 10 * kMiB + static_cast<std::uint64_t>(i) * kMiB / 4; });
  facts.sites = {{"note (shop.cpp:9)",
                  9'000,
                  0,
                  0,
                  24 * kMiB,
                  9'000,
                  {3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB, 3 * kMiB}},
                 {"work (shop.cpp:5)", 900'000, 0, 0, 90 * kMiB, 9'000, {0, 0, 0, 0, 0, 0, 0, 90 * kMiB}}};
  const auto found = judge(facts);
  ASSERT_THAT(kinds(found), ElementsAre("leak"));
  EXPECT_EQ(found[0].bytes, 21 * kMiB);
  EXPECT_THAT(found[0].text, HasSubstr("blocks of all parts of the run are left over at its end: 21.0 MiB since 1.2 s"));
  EXPECT_THAT(found[0].text, HasSubstr("note (shop.cpp:9)"));
  EXPECT_THAT(found[0].text, testing::Not(HasSubstr("work")));
  facts.sites[0].survivors = {12 * kMiB, 9 * kMiB, 3 * kMiB, 0, 0, 0, 0, 0};  // a cache that fills once
  EXPECT_THAT(judge(facts), IsEmpty());
}

TEST(Verdicts, AProgramThatKeepsAllItAllocatesIsLoadingAndNotLeaking) {
  Facts facts = curve([](int i) { return static_cast<std::uint64_t>(i) * kMiB; });
  facts.bytes_allocated = 110 * kMiB;
  EXPECT_THAT(judge(facts), IsEmpty());
}

TEST(Verdicts, AFlatCurveAndAnEmptyOneDivideByNothing) {
  EXPECT_THAT(judge(curve([](int) { return std::uint64_t{kMiB}; })), IsEmpty());
  Facts facts = process(0);
  facts.timeline = {{1, 5 * kMiB}, {1, 6 * kMiB}, {1, 7 * kMiB}, {1, 8 * kMiB},  {1, 9 * kMiB},
                    {1, 1},        {1, 2},        {1, 3},        {1, 100 * kMiB}};
  facts.end_live_bytes = 100 * kMiB;
  EXPECT_EQ(leak(facts), std::nullopt);
}

}  // namespace
}  // namespace heapspy::findings
