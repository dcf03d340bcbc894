#include "analyzer/trial/compare.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include "tests/support/amounts.h"

namespace heapspy::trial {
namespace {

using test::kMiB;

using testing::ElementsAre;

// The program that the tests below run is one of these tests, in this very file.
std::vector<std::string> victim(const std::string& name) {
  char self[4096];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  return {std::string(self, length > 0 ? static_cast<std::size_t>(length) : 0), "--gtest_also_run_disabled_tests",
          "--gtest_filter=Victim.DISABLED_" + name};
}

void* touched(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ::_exit(99);
  std::memset(memory, 1, bytes);
  return memory;
}

TEST(Victim, DISABLED_Peaks300EndsAt100) {
  void* most = touched(200 * kMiB);
  touched(100 * kMiB);
  ::munmap(most, 200 * kMiB);
  ::_exit(7);
}
TEST(Victim, DISABLED_Idle) { ::_exit(0); }
TEST(Victim, DISABLED_WantsArenaMax3) {
  ::_exit(std::getenv("MALLOC_ARENA_MAX") && std::string(std::getenv("MALLOC_ARENA_MAX")) == "3" ? 33 : 0);
}
TEST(Victim, DISABLED_IsKilled) { ::raise(SIGKILL); }

MeasuredRun run(const std::string& name) { return run_measured({{victim(name), {}, process::ChildOutput::discard}, "", {}}); }

TEST(MeasuredRun, SeesPeakAndEndOfTheProgramAlone) {
  const MeasuredRun idle = run("Idle"), large = run("Peaks300EndsAt100");
  EXPECT_EQ(idle.exit_status, 0);
  EXPECT_EQ(large.exit_status, 7);
  ASSERT_EQ(large.method, MemoryMethod::exit_stop) << "ptrace of a child is refused here";
  ASSERT_TRUE(idle.peak_rss_bytes && idle.end_rss_bytes && large.peak_rss_bytes && large.end_rss_bytes);
  // All else is the same in both but for the pages that this machine gives a process more or less of.
  constexpr std::uint64_t kSlack = 2 * kMiB;
  const std::uint64_t peak = *large.peak_rss_bytes - *idle.peak_rss_bytes, end = *large.end_rss_bytes - *idle.end_rss_bytes;
  EXPECT_NEAR(static_cast<double>(peak), 300.0 * kMiB, kSlack);
  EXPECT_NEAR(static_cast<double>(end), 100.0 * kMiB, kSlack);
  EXPECT_GE(large.wall_s, 0);
  EXPECT_GT(large.cpu_s, 0);
  // Huge pages, where the system uses them, make one fault of 512.
  EXPECT_GE(large.minor_faults, idle.minor_faults + 150);
}

TEST(MeasuredRun, PassesSignalsOn) { EXPECT_EQ(run("IsKilled").exit_status, 128 + SIGKILL); }

TEST(MeasuredRun, MeasuresTheLargestProcessOfAScript) {
  const std::vector<std::string> program = victim("Peaks300EndsAt100");
  const std::string script = fmt::format("'{}' {} '{}'; exit 5", program[0], program[1], program[2]);
  const MeasuredRun whole = run_measured({{{"sh", "-c", script}, {}, process::ChildOutput::discard}, "", {}});
  EXPECT_EQ(whole.exit_status, 5);
  ASSERT_TRUE(whole.peak_rss_bytes && whole.end_rss_bytes);
  EXPECT_GE(*whole.peak_rss_bytes, 300 * kMiB);
  EXPECT_GE(*whole.end_rss_bytes, 100 * kMiB);
  EXPECT_LT(*whole.end_rss_bytes, 200 * kMiB);
  EXPECT_TRUE(whole.largest_process.starts_with("heapspy_test")) << whole.largest_process;
}

// ---- programs that do not end by themselves

RunPlan server(const std::string& script) { return {{{"sh", "-c", script}, {}, process::ChildOutput::discard}, "", {}}; }

TEST(MeasuredRun, OfAServerEndsWhenItsOutputHasTheText) {
  RunPlan plan = server("echo not re; printf rea; echo dy; exec sleep 1000");
  plan.companion.until_text = "ready";
  const MeasuredRun run = run_measured(plan);
  EXPECT_TRUE(run.ended_by_us);
  EXPECT_EQ(run.exit_status, 128 + SIGTERM);
  EXPECT_TRUE(run.end_rss_bytes);
}

TEST(MeasuredRun, OfAServerEndsWithItsLoad) {
  RunPlan plan = server("exec sleep 1000");
  plan.companion.load = {"sh", "-c", "exit 3"};
  plan.companion.sample_s = 0.01;
  const MeasuredRun run = run_measured(plan);
  EXPECT_TRUE(run.ended_by_us);
  EXPECT_EQ(run.exit_status, 128 + SIGTERM);
  EXPECT_FALSE(run.curve.empty());
}

TEST(MeasuredRun, OfAProgramThatEndsFirstEndsItsLoad) {
  RunPlan plan = server("exit 5");
  plan.companion.load = {"sleep", "1000"};
  const MeasuredRun run = run_measured(plan);
  EXPECT_FALSE(run.ended_by_us);
  EXPECT_EQ(run.exit_status, 5);
}

TEST(Compare, RunsSettingsInTurnWithTheirEnvironment) {
  ComparePlan plan;
  plan.command = victim("WantsArenaMax3");
  plan.settings = parse_settings("default,arena_max=3,trim=1");
  plan.repeat = 2;
  std::vector<std::string> order;
  plan.progress = [&](std::size_t at, std::size_t of, const Setting& setting, unsigned repeat) {
    order.push_back(fmt::format("{}/{} {} {}", at, of, setting.text, repeat));
  };
  ::unsetenv("MALLOC_ARENA_MAX");
  const Comparison comparison = compare(plan);
  EXPECT_THAT(order, ElementsAre("1/4 default 1", "2/4 arena_max=3 1", "3/4 default 2", "4/4 arena_max=3 2"));
  ASSERT_EQ(comparison.settings.size(), 3u);
  EXPECT_EQ(comparison.settings[0].medians.exit_status, 0);
  EXPECT_EQ(comparison.settings[1].medians.exit_status, 33);
  EXPECT_EQ(comparison.settings[1].tries.size(), 2u);
  EXPECT_TRUE(comparison.settings[2].tries.empty());
  EXPECT_FALSE(comparison.settings[2].recipe.unavailable.empty());
}

// ---- advice, from figures that are given

SettingResult result(std::string_view setting, std::uint64_t peak_mib, std::uint64_t end_mib, double wall, double cpu,
                     int status = 0) {
  SettingResult made;
  made.setting = parse_settings(setting).at(0);
  if (made.setting.kind == SettingKind::arena_max)
    made.recipe.environment = {{"MALLOC_ARENA_MAX", std::to_string(made.setting.value)}};
  MeasuredRun measured;
  measured.exit_status = status;
  measured.peak_rss_bytes = peak_mib * kMiB;
  measured.end_rss_bytes = end_mib * kMiB;
  measured.wall_s = wall;
  measured.cpu_s = cpu;
  made.tries = {{1, measured}};
  made.medians = medians_of(made.tries);
  return made;
}

TEST(Advice, NamesTheLowestPeakAndWhatItCosts) {
  EXPECT_EQ(advise({result("default", 400, 200, 10, 20), result("arena_max=1", 100, 50, 11, 19),
                    result("arena_max=2", 300, 40, 10, 20)}),
            "arena_max=1 (MALLOC_ARENA_MAX=1) lowers the peak from 400.0 MiB to 100.0 MiB (−75 %) and RSS at the end from "
            "200.0 MiB to "
            "50.0 MiB (−75 %); wall time +10 %, CPU time −5 %");
}

TEST(Advice, SaysThatNoSettingChangesThePeak) {
  EXPECT_EQ(advise({result("default", 400, 200, 10, 20), result("arena_max=1", 385, 199, 10, 20)}),
            "no setting changes the peak of 400.0 MiB by more than 5 %");
  EXPECT_EQ(advise({result("default", 400, 200, 10, 20), result("arena_max=1", 440, 200, 10, 20)}),
            "no setting lowers the peak of 400.0 MiB by more than 5 %; arena_max=1 raises it to 440.0 MiB (+10 %)");
  EXPECT_EQ(advise({result("default", 400, 200, 10, 20), result("arena_max=1", 400, 100, 10, 20)}),
            "no setting changes the peak of 400.0 MiB by more than 5 %; arena_max=1 (MALLOC_ARENA_MAX=1) lowers RSS at the end "
            "from 200.0 "
            "MiB to 100.0 MiB (−50 %); wall time ±0 %, CPU time ±0 %");
}

TEST(Advice, DoesNotDwellOnLessThanAMebibyte) {
  EXPECT_EQ(advise({result("default", 4, 4, 1, 1), result("arena_max=1", 3, 3, 1, 1)}),
            "no setting changes the peak of 4.0 MiB by more than 1 MiB");
}

TEST(Advice, CountsLockWaitsAsACostWhereTheyAreVisible) {
  SettingResult base = result("default", 400, 200, 10, 20), one = result("arena_max=1", 100, 50, 10, 20);
  base.medians.lock_wait_s = 0.125;
  one.medians.lock_wait_s = 0.45;
  EXPECT_THAT(advise({base, one}), testing::EndsWith("CPU time ±0 %"));
  one.medians.lock_wait_s = 12.5;
  EXPECT_THAT(advise({base, one}), testing::EndsWith("CPU time ±0 %, lock waits from 0.1 s to 12.5 s over all threads"));
}

TEST(Advice, LeavesOutWhatFailedOrHadNoEffect) {
  SettingResult not_loaded = result("jemalloc", 100, 50, 10, 20);
  not_loaded.in_effect = false;
  EXPECT_EQ(advise({result("default", 400, 200, 10, 20), result("arena_max=1", 10, 5, 1, 1, 134), not_loaded}),
            "nothing to compare default with");
  EXPECT_EQ(advise({}), "no run could be measured");
}

TEST(Medians, AreTheMiddleAndTheFirstFailure) {
  std::vector<Try> tries(4);
  const std::uint64_t peaks[] = {40, 10, 30, 20};
  for (unsigned i = 0; i < 4; i++) {
    tries[i].run.peak_rss_bytes = peaks[i];
    tries[i].run.wall_s = static_cast<double>(peaks[i]);
    tries[i].run.exit_status = i == 2 ? 9 : 0;
  }
  EXPECT_EQ(medians_of(tries).peak_rss_bytes, 25u);
  EXPECT_EQ(medians_of(tries).wall_s, 25);
  EXPECT_EQ(medians_of(tries).exit_status, 9);
  EXPECT_FALSE(medians_of(tries).end_rss_bytes);
  tries.pop_back();
  EXPECT_EQ(medians_of(tries).peak_rss_bytes, 30u);
}

TEST(Compare, TakesTheRecorderOutOfThePreload) {
  EXPECT_EQ(without_recorder("/a/libheapspy.so:/b/other.so"), "/b/other.so");
  EXPECT_EQ(without_recorder("libheapspy.so"), "");
  EXPECT_EQ(without_recorder("/x.so /y/libheapspy.so  /z.so:"), "/x.so:/z.so");
  EXPECT_EQ(without_recorder(""), "");
}

}  // namespace
}  // namespace heapspy::trial
