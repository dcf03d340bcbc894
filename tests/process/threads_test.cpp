// Threads that come and go.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "analyzer/trace/reader.h"
#include "analyzer/trace/timeline.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

TEST(Threads, FreesInExitDestructorsAreCountedExactly) {
  // Forty threads hand 32-byte chunks to each other as they end.
  Recording run({.command = {victim("thread_exit_frees")}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  expect_whole(report);
  EXPECT_EQ(report.totals.unknown_frees, 0u);
  for (int i = 0; i < 40; i++) {
    char name[16];
    snprintf(name, sizeof name, "exits-%02d", i);
    SCOPED_TRACE(name);
    const report::ThreadReport thread = thread_named(report, name);
    // One more, of 32 bytes, is libc's note of the thread_local.
    EXPECT_EQ(thread.allocations, 108u);
    EXPECT_EQ(thread.frees, 108u);
    EXPECT_EQ(thread.bytes_allocated, 100u * 40 + 7 * 100 + 32);
    EXPECT_EQ(thread.live_bytes, 0u);
    EXPECT_EQ(thread.freed_by_others, 0u);
    EXPECT_TRUE(thread.end_s.has_value());
  }
}

TEST(Threads, TenThousandShortOnesAreAllThereWithTheirNames) {
  Recording run({.command = {victim("short_threads")}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  expect_whole(report);
  std::set<std::string> names;
  std::uint64_t bytes = 0, wrong = 0;
  for (const report::ThreadReport& thread : report.threads) {
    if (!thread.name.starts_with("short-")) continue;
    names.insert(thread.name);
    bytes += thread.bytes_allocated;
    wrong += thread.allocations != 1 || thread.frees != 1 || thread.live_bytes != 0;
  }
  EXPECT_EQ(names.size(), 10000u);
  EXPECT_EQ(bytes, 10000ull * 10001 / 2);
  EXPECT_EQ(wrong, 0u);
  // Flat: not a ring for each thread that ever was.
  std::uint64_t recorder_bytes = 0;
  for (const report::PartReport& part : report.rss_at_end.parts)
    if (part.name == "heapspy itself") recorder_bytes = part.bytes;
  EXPECT_GT(recorder_bytes, 0u);
  EXPECT_LE(recorder_bytes, 4u << 20);
  EXPECT_LE(report.trace.size_bytes, 10000u * 400);
}

TEST(Threads, ThatEndBehindEverybodysBackAreCountedExactly) {
  Recording run({.command = {victim("raw_exits")}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  expect_whole(report);
  int threads = 0;
  for (const report::ThreadReport& thread : report.threads) {
    if (thread.name != "t-raw") continue;
    threads++;
    EXPECT_EQ(thread.allocations, 10u);
    EXPECT_EQ(thread.frees, 4u);
    EXPECT_EQ(thread.live_bytes, 6u * 32);
  }
  EXPECT_EQ(threads, 300);
}

TEST(Threads, SixHundredAtOnceAreCountedExactly) {
  Recording run({.command = {victim("many_threads")}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  expect_whole(report);
  int threads = 0;
  for (const report::ThreadReport& thread : report.threads) {
    if (thread.name != "t-many") continue;
    threads++;
    EXPECT_EQ(thread.allocations, 50u);
    EXPECT_EQ(thread.frees, 50u);
    EXPECT_EQ(thread.bytes_allocated, 2000u);
    EXPECT_EQ(thread.peak_live_bytes, 2000u);
  }
  EXPECT_EQ(threads, 600);
  EXPECT_EQ(report.totals.unknown_frees, 0u);
}

TEST(Threads, ThatAreManyAndBusyCostNoMoreThan32MiB) {
  const Compared compared = expect_unchanged({.command = {victim("many_threads"), "4000"}});
  EXPECT_EQ(compared.plain.exit_status, 0);
  expect_whole(compared.recording->report());
  EXPECT_LE(compared.recording->peak_rss_bytes(), compared.plain_peak_rss_bytes + (32u << 20));
}

TEST(Threads, KeepTheNameThatTheyEndWithWhoeverGaveIt) {
  Recording run({.command = {victim("named_otherwise")}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  expect_whole(report);
  for (const char* name : {"n-by-prctl", "n-by-proc", "n-by-other", "n-last", "\033[31m<b>\"\377\n"})
    EXPECT_EQ(thread_named(report, name).allocations, 1u) << name;
  // A name is data: JSON stays JSON, text shows no control character.
  Recording json({.command = {heapspy_program(), "report", "--json", run.trace()}, .recorded = false});
  EXPECT_EQ(json.finish().exit_status, 0);
  EXPECT_TRUE(nlohmann::json::accept(json.finish().out));
  Recording text({.command = {heapspy_program(), "report", run.trace()}, .recorded = false});
  EXPECT_EQ(text.finish().exit_status, 0);
  EXPECT_EQ(text.finish().out.find('\033'), std::string::npos);
}

TEST(Threads, ErrnoSurvivesEveryHook) {
  const Compared compared = expect_unchanged({.command = {victim("errno_kept")}});
  EXPECT_EQ(compared.plain.out, "0 0 0 0 0 0 0 0 0 0 0 0 0 0 6 0 \n");
  expect_whole(compared.recording->report());
}

TEST(Threads, ErrnoSurvivesEveryHookWithAClockAtEveryEvent) {
  const Compared compared = expect_unchanged({.command = {victim("errno_kept")}, .environment = {{"HEAPSPY_CLOCK", "event"}}});
  expect_whole(compared.recording->report());
}

TEST(Threads, BlocksOfOneThatExitsAreFreedByOthers) {
  Recording run({.command = {victim("leaves_blocks")}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  expect_whole(report);
  EXPECT_EQ(report.totals.unknown_frees, 0u);
  std::uint64_t givers = 0;
  for (const report::ThreadReport& thread : report.threads) {
    if (thread.name != "t-leaves") continue;
    givers++;
    EXPECT_EQ(thread.allocations, 50u);
    EXPECT_EQ(thread.freed_by_others, 50u);
    EXPECT_EQ(thread.live_bytes, 0u);
  }
  EXPECT_EQ(givers, 200u);
  for (const char* name : {"t-takes-even", "t-takes-odd"}) {
    const report::ThreadReport thread = thread_named(report, name);
    EXPECT_EQ(thread.frees, 5000u);
    EXPECT_EQ(thread.freed_for_others, 5000u);
  }
}

TEST(Threads, AProcessWhoseMainThreadEndsRunsOnAndEndsByItself) {
  const Compared compared = expect_unchanged({.command = {victim("main_thread_ends")}, .limit_s = 20});
  EXPECT_EQ(compared.plain.out, "heir done\n");
  const report::Report report = compared.recording->report();
  expect_whole(report);
  const report::ThreadReport heir = thread_named(report, "t-heir");
  EXPECT_EQ(heir.allocations, 1000u);
  EXPECT_EQ(heir.frees, 1200u);
  EXPECT_EQ(heir.freed_for_others, 200u);
  EXPECT_EQ(report.process.end, "exit");
}

// A hook has the stack that the program gave it, and that may be small.
void expect_small_stacks(const std::string& mode) {
  const Compared compared = expect_unchanged({.command = {victim("small_stacks"), mode}});
  EXPECT_EQ(compared.plain.exit_status, 0);
  const report::Report report = compared.recording->report();
  expect_whole(report);
  std::uint64_t allocations = 0;
  for (const report::ThreadReport& thread : report.threads)
    if (mode == "coroutines" || thread.name == "t-small") allocations += thread.allocations;
  EXPECT_GE(allocations, 16u * 40 * 5001);
  EXPECT_LE(allocations, 16u * 40 * 5001 + 30);
  ASSERT_TRUE(report.rss.total_bytes.has_value());
  EXPECT_GE(*report.rss.total_bytes, 50'000'000u);  // the pictures were taken
}

TEST(Threads, OfTheSmallestStacksAreRecorded) {
  for (int i = 0; i < 5; i++) expect_small_stacks("threads");
}
TEST(Threads, CoroutinesOfSmallStacksAreRecorded) { expect_small_stacks("coroutines"); }

// Follows the blocks by itself: what the timeline passes on must be a history that can have happened.
struct OneLifeAtATime : trace::Observer {
  std::unordered_set<std::uint64_t> live;
  std::uint64_t live_twice = 0, freed_dead = 0, vanished_blocks = 0, unknown = 0;

  void allocated(const trace::Block& block, trace::Tick) override { live_twice += !live.insert(block.address).second; }
  void released(const trace::Block& block, trace::ThreadId, trace::Release, trace::Tick) override {
    freed_dead += live.erase(block.address) == 0;
  }
  void resized(const trace::Block& before, const trace::Block& after, trace::ThreadId, trace::Tick) override {
    freed_dead += before.known && live.erase(before.address) == 0;
    live_twice += !live.insert(after.address).second;
  }
  void unknown_release(trace::ThreadId, std::uint64_t, trace::Release, bool, trace::Tick) override { unknown++; }
  void lived_before(const trace::Block&, trace::ThreadId, trace::Release, trace::Tick) override {}
  void vanished(const trace::Block& block, trace::Tick) override {
    vanished_blocks++;
    live.erase(block.address);
  }
};

void expect_one_life_at_a_time(const std::string& clock) {
  Recording run({.command = {victim("passes_blocks")}, .environment = {{"HEAPSPY_CLOCK", clock}}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const trace::Reader reader(run.trace());
  OneLifeAtATime history;
  trace::Timeline(reader, {&history}).run();
  EXPECT_EQ(history.live_twice, 0u);
  EXPECT_EQ(history.freed_dead, 0u);
  EXPECT_EQ(history.vanished_blocks, 0u);
  EXPECT_EQ(history.unknown, 0u);
  const report::Report report = run.report();
  expect_whole(report);
  std::uint64_t allocations = 0, frees = 0;
  for (const report::ThreadReport& thread : report.threads) {
    if (thread.name != "t-passes") continue;
    EXPECT_EQ(thread.allocations, 5000u);
    EXPECT_EQ(thread.frees, 5000u);
    allocations += thread.allocations;
    frees += thread.frees;
  }
  EXPECT_EQ(allocations, 80000u);
  EXPECT_EQ(frees, 80000u);
}

TEST(Threads, BlocksPassedAtFullSpeedAreNeverLiveTwice) { expect_one_life_at_a_time("stamp"); }
TEST(Threads, BlocksPassedAtFullSpeedAreNeverLiveTwiceWithAClockAtEveryEvent) { expect_one_life_at_a_time("event"); }

}  // namespace
}  // namespace heapspy::test
