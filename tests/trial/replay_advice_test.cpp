// What `heapspy replay` advises, from figures that are given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/trial/replay.h"
#include "tests/support/amounts.h"

namespace heapspy::trial {
namespace {

using test::kMiB;

struct Figures {
  std::uint64_t peak_mib, end_mib;
  double cpu_s = 10;
  std::uint64_t waits = 0;
  double wall_s = 10;
};

ReplayedSetting played(std::string_view setting, const Figures& figures) {
  ReplayedSetting made;
  made.setting = parse_settings(setting).at(0);
  if (made.setting.kind == SettingKind::arena_max)
    made.recipe.environment = {{"MALLOC_ARENA_MAX", std::to_string(made.setting.value)}};
  Replayed& run = made.tries.emplace_back();
  run.peak_heap_bytes = figures.peak_mib * kMiB;
  run.end_heap_bytes = figures.end_mib * kMiB;
  run.cpu_s = figures.cpu_s;
  run.wall_s = figures.wall_s;
  run.lock_waits = figures.waits;
  return made;
}

TEST(ReplayAdvice, NamesTheSettingThatIsCheapestInBytesAndTheOneInTime) {
  EXPECT_EQ(advise({played("default", {400, 200}), played("arena_max=1", {100, 50, 10.5}), played("tcmalloc", {300, 300, 5})}),
            "arena_max=1 (MALLOC_ARENA_MAX=1) lowers the heap's peak from 400.0 MiB to 100.0 MiB (−75 %) and the heap's end "
            "from 200.0 MiB to 50.0 MiB (−75 %); CPU time of the calls from 10.00 to 10.50 s (+5 %), lock waits from 0 to 0; "
            "tcmalloc takes the least CPU time, 5.00 s (−50 %)");
}

TEST(ReplayAdvice, SaysThatTheSiteHelpsWhereNoSettingDoes) {
  EXPECT_EQ(advise({played("default", {400, 400}), played("arena_max=1", {390, 395}), played("jemalloc", {420, 410})}),
            "no setting lowers the heap's peak of 400.0 MiB by more than 10 %: no setting helps, the code that holds it does "
            "(heapspy report TRACE --by site)");
}

TEST(ReplayAdvice, NamesTheSettingThatLowersOnlyTheEnd) {
  EXPECT_EQ(
      advise({played("default", {400, 400}), played("trim_threshold=128KiB", {400, 40, 12})}),
      "no setting lowers the heap's peak of 400.0 MiB by more than 10 %; trim_threshold=128KiB lowers the heap's end from "
      "400.0 MiB to 40.0 MiB (−90 %); CPU time of the calls from 10.00 to 12.00 s (+20 %), lock waits from 0 to 0");
}

TEST(ReplayAdvice, DoesNotAdviseASettingWhoseThreadsWaitForEachOther) {
  const ReplayedSetting base = played("default", {400, 400, 10, 1'000});
  EXPECT_EQ(
      advise({base, played("arena_max=1", {100, 100, 13, 2'000'000, 14}), played("arena_max=2", {300, 300})}),
      "arena_max=2 (MALLOC_ARENA_MAX=2) lowers the heap's peak from 400.0 MiB to 300.0 MiB (−25 %) and the heap's end from "
      "400.0 MiB to 300.0 MiB (−25 %); CPU time of the calls from 10.00 to 10.00 s (±0 %), lock waits from 1000 to 0; "
      "arena_max=1 is not advised: the heap's peak from 400.0 MiB to 100.0 MiB (−75 %), but CPU time of the calls from "
      "10.00 to 13.00 s (+30 %), lock waits from 1000 to 2000000");
  EXPECT_THAT(
      advise({base, played("arena_max=1", {100, 100, 13, 2'000'000, 14})}),
      testing::StartsWith("no setting without a price lowers the heap's peak of 400.0 MiB by more than 10 %; arena_max=1 is "
                          "not advised: "));
}

TEST(ReplayAdvice, TakesNoHeedOfWaitsThatCostNothing) {
  EXPECT_THAT(advise({played("default", {400, 400}), played("arena_max=1", {100, 100, 10, 1'000'000, 10})}),
              testing::StartsWith("arena_max=1 (MALLOC_ARENA_MAX=1) lowers the heap's peak"));
}

TEST(ReplayAdvice, DoesNotDwellOnLessThanAMebibyte) {
  EXPECT_THAT(advise({played("default", {2, 2}), played("arena_max=1", {1, 1})}), testing::StartsWith("no setting lowers"));
}

TEST(ReplayAdvice, IsSilentWhereThereIsNothingToCompare) {
  ReplayedSetting not_here;
  not_here.setting = parse_settings("jemalloc").at(0);
  not_here.recipe.unavailable = "not installed";
  EXPECT_EQ(advise({played("default", {4, 4}), not_here}), "nothing to compare default with");
  EXPECT_EQ(advise({not_here}), "no setting could be played");
}

}  // namespace
}  // namespace heapspy::trial
