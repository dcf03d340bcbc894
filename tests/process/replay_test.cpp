// `heapspy replay` on recorded programs.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

nlohmann::json replay(const Recording& run, const std::string& with) {
  const Outcome shown = run_plain({heapspy_program(), "replay", run.trace(), "--with", with, "--json"});
  EXPECT_EQ(shown.exit_status, 0) << shown;
  return nlohmann::json::parse(shown.out);
}

TEST(Replay, PlaysEveryCallOfTenThousandThreads) {
  Recording run({.command = {victim("short_threads")}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  const nlohmann::json json = replay(run, "default");
  EXPECT_EQ(json["left_out"], 0);
  ASSERT_EQ(json["runs"].size(), 1u);
  EXPECT_EQ(json["runs"][0]["failed"], 0);
  const std::uint64_t calls = report.totals.allocations + report.totals.frees + report.totals.reallocations;
  EXPECT_GE(json["runs"][0]["operations"], calls);
}

// The heap of the replay against what the pages of the recorded process said.
TEST(Replay, UnderDefaultTakesTheMemoryThatTheProgramTook) {
  Recording run({.command = {victim("keeps_arenas")}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  std::uint64_t recorded = 0;
  for (const report::ArenaReport& arena : report.arenas_at_end) recorded += arena.resident_bytes.value_or(0);
  ASSERT_GE(recorded, 20u << 20);
  const nlohmann::json json = replay(run, "default,arena_max=1");
  const std::uint64_t played = json["runs"][0]["end_heap_bytes"], in_one = json["runs"][1]["end_heap_bytes"];
  EXPECT_GE(played, recorded / 100 * 90);
  EXPECT_LE(played, recorded / 100 * 110);
  EXPECT_LT(in_one, played / 2) << "eight threads, one after another, need one arena's memory";
  EXPECT_EQ(json["runs"][1]["arenas"], 1);
}

TEST(Replay, OfARingIsRefusedInOneLine) {
  Recording run({.command = {victim("known_counts")}, .environment = {{"HEAPSPY_MODE", "ring"}}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const Outcome shown = run_plain({heapspy_program(), "replay", run.trace()});
  EXPECT_EQ(shown.exit_status, 3);
  EXPECT_EQ(shown.err, "heapspy: " + run.trace() + " does not hold every call; replay needs a trace of mode full\n");
}

}  // namespace
}  // namespace heapspy::test
