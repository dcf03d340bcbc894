#include "analyzer/report/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/report/condition.h"
#include "analyzer/report/diff_json.h"
#include "analyzer/report/diff_text.h"
#include "analyzer/report/printable.h"
#include "tests/report/sample_report.h"
#include "tests/support/amounts.h"

namespace heapspy::report {
namespace {

using ::testing::HasSubstr;

using test::kMiB;

// The same program with MALLOC_ARENA_MAX=1: one arena, 275 MiB less to trim.
Report with_one_arena() {
  Report report = sample_report();
  report.process.pid = 5151;
  report.process.environment.emplace_back("MALLOC_ARENA_MAX", "1");
  report.arenas.pop_back();
  report.rss.total_bytes = 477 * kMiB;
  report.rss.parts[3].bytes = 100 * kMiB;
  report.rss.parts.push_back({"thread stacks", 0});
  report.threads[1].name = "zip-storm-worker-with-a-long-name-7";
  report.threads[1].bytes_allocated += 8 * kMiB;
  return report;
}

TEST(Diff, SubtractsBeforeFromAfter) {
  const Diff diff = make_diff(sample_report(), with_one_arena());
  const Compared* rss = diff.figure("rss.total_bytes");
  ASSERT_NE(rss, nullptr);
  EXPECT_EQ(rss->before, 752.0 * kMiB);
  EXPECT_EQ(rss->after, 477.0 * kMiB);
  EXPECT_EQ(rss->change(), -275.0 * kMiB);
  EXPECT_EQ(diff.figure("rss.parts.malloc: free, trimmable")->change(), -275.0 * kMiB);
  EXPECT_EQ(diff.figure("rss.parts.Java heap")->change(), 0);
  EXPECT_EQ(diff.figure("rss.end.total_bytes")->change(), 0);
  EXPECT_EQ(diff.figure("arenas.count")->before, 2);
  EXPECT_EQ(diff.figure("arenas.secondary.count")->change(), -1);
  EXPECT_EQ(diff.figure("arenas.secondary.trimmable_bytes")->change(), -36.0 * kMiB);
  EXPECT_EQ(diff.figure("arenas.main.resident_bytes")->change(), 0);
  EXPECT_EQ(diff.figure("totals.allocations")->change(), 0);
  EXPECT_EQ(diff.figure("nothing"), nullptr);
}

TEST(Diff, WhatIsUnknownInOneIsUnknownInTheChange) {
  Report after = with_one_arena();
  after.rss = {};
  after.arenas[0].pinned_bytes.reset();
  const Diff diff = make_diff(sample_report(), after);
  EXPECT_EQ(diff.figure("rss.total_bytes")->after, std::nullopt);
  EXPECT_EQ(diff.figure("rss.total_bytes")->change(), std::nullopt);
  EXPECT_EQ(diff.figure("rss.parts.Java heap")->after, std::nullopt);
  EXPECT_EQ(diff.figure("arenas.pinned_bytes")->after, std::nullopt);
  EXPECT_TRUE(diff_json(diff)["rss"]["total_bytes"]["change"].is_null());
}

TEST(Diff, APartThatALedgerDoesNotListHoldsNothing) {
  const Diff diff = make_diff(sample_report(), with_one_arena());
  EXPECT_EQ(diff.figure("rss.parts.thread stacks")->before, 0);
}

// Where a trace does not hold every block, malloc's memory is one part.
TEST(Diff, PartsOfMallocThatOneLedgerDoesNotTellApartAreUnknown) {
  Report after = sample_report();
  after.rss.parts = {{"malloc", 500 * kMiB}, {"Java heap", 148 * kMiB}};
  const Diff diff = make_diff(sample_report(), after);
  EXPECT_EQ(diff.figure("rss.parts.malloc: live")->before, 31.0 * kMiB);
  EXPECT_EQ(diff.figure("rss.parts.malloc: live")->after, std::nullopt);
  EXPECT_EQ(diff.figure("rss.parts.malloc")->before, (31.0 + 2 + 88 + 375 + 11) * kMiB);
  EXPECT_EQ(diff.figure("rss.parts.malloc")->after, 500.0 * kMiB);
  EXPECT_EQ(diff.figure("rss.parts.other")->after, 0);
}

TEST(Diff, WhoCollectedATraceIsNoSetting) {
  Report before = sample_report(), after = sample_report();
  before.process.environment.emplace_back("HEAPSPY_COLLECTOR", "28778");
  after.process.environment.emplace_back("HEAPSPY_COLLECTOR", "28784");
  EXPECT_TRUE(make_diff(before, after).settings.empty());
}

TEST(Diff, ThreadsThatDifferInDigitsOnlyAreCompared) {
  const Diff diff = make_diff(sample_report(), with_one_arena());
  ASSERT_EQ(diff.threads.size(), 2u);
  EXPECT_EQ(diff.threads[0].name, "zip-storm-worker-with-a-long-name-#");
  EXPECT_EQ(diff.threads[0].figures[3].change(), 8.0 * kMiB);
  EXPECT_EQ(diff.threads[1].name, "main");
}

TEST(Diff, SettingsThatDifferComeFirst) {
  const Diff diff = make_diff(sample_report(), with_one_arena());
  ASSERT_EQ(diff.settings.size(), 1u);
  EXPECT_EQ(diff.settings[0].name, "MALLOC_ARENA_MAX");
  EXPECT_EQ(diff.settings[0].before, std::nullopt);
  EXPECT_EQ(diff.settings[0].after, "1");
  const auto lines = diff_text(diff, {});
  EXPECT_EQ(lines[3], "Set differently");
  EXPECT_EQ(lines[4], "  MALLOC_ARENA_MAX: not set → 1");
}

TEST(Diff, TextSaysWhereTheDifferenceLies) {
  const auto lines = diff_text(make_diff(sample_report(), with_one_arena()), {});
  EXPECT_EQ(lines[0], "before  java -Xmx192m -jar zip_threads.jar   pid 4242 · 14.2 s · ended normally");
  EXPECT_EQ(lines[1], "after   java -Xmx192m -jar zip_threads.jar   pid 5151 · 14.2 s · ended normally");
  EXPECT_EQ(lines[6], "What changed");
  EXPECT_EQ(lines[7], "  RSS at its peak (9.8 s and 9.8 s): 752.0 MiB → 477.0 MiB, -275.0 MiB (-37 %). Most of it: malloc:");
  EXPECT_EQ(lines[8], "  free, trimmable -275.0 MiB.");
  EXPECT_EQ(lines[9], "  RSS at the end: 517.0 MiB → 517.0 MiB, 0 B.");
  EXPECT_EQ(lines[10], "  Secondary arenas: 1 → 0, with -40.0 MiB resident.");
  EXPECT_EQ(lines[12], "RSS at its peak (9.8 s and 9.8 s)     before      after      change");
  EXPECT_EQ(lines[13], "  total                            752.0 MiB  477.0 MiB  -275.0 MiB  -37 %");
}

TEST(Diff, TextStaysWithinTheWidthWhateverTheNames) {
  Report hostile = with_one_arena();
  hostile.process.command = {std::string(65536, '\xff')};
  hostile.process.environment.emplace_back("LD_PRELOAD", std::string(65536, '\x1b'));
  hostile.threads[0].name = std::string(65536, '\n');
  hostile.rss.parts.push_back({std::string(65536, 'p'), 5});
  for (const std::string& line : diff_text(make_diff(sample_report(), hostile), {true, false})) {
    EXPECT_LE(columns(line), kWidth);
    EXPECT_EQ(line.find_first_of("\n\x1b\xff"), std::string::npos) << line;
  }
}

TEST(DiffJson, EachFigureIsBeforeAfterAndChange) {
  const auto json = diff_json(make_diff(sample_report(), with_one_arena()));
  EXPECT_EQ(json["schema"], "heapspy.diff/1");
  for (const char* key : {"before", "after", "totals", "arenas", "rss", "threads", "sites"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["before"]["pid"], 4242);
  EXPECT_EQ(json["after"]["environment"]["MALLOC_ARENA_MAX"], "1");
  EXPECT_EQ(json["settings"][0]["name"], "MALLOC_ARENA_MAX");
  EXPECT_EQ(json["rss"]["total_bytes"].dump(), R"({"before":788529152,"after":500170752,"change":-288358400})");
  EXPECT_EQ(json["totals"]["duration_s"].dump(), R"({"before":14.2,"after":14.2,"change":0.0})");
  EXPECT_EQ(json["arenas"]["secondary"]["count"]["after"], 0);
  EXPECT_EQ(json["threads"][0]["bytes_allocated"]["change"], 8 << 20);
  EXPECT_TRUE(json["sites"].is_array());
}

// ---- --fail-if

bool held(const char* text) { return holds(parse_condition(text), make_diff(sample_report(), with_one_arena())); }

TEST(Condition, AbsoluteValuesAreAboutTheFigureAfter) {
  EXPECT_TRUE(held("rss.total_bytes>476MiB"));
  EXPECT_FALSE(held("rss.total_bytes > 477MiB"));
  EXPECT_TRUE(held("rss.total_bytes >= 477 MiB"));
  EXPECT_TRUE(held("rss.total_bytes<0.5g"));
  EXPECT_TRUE(held("arenas.secondary.count <= 0"));
  EXPECT_TRUE(held("totals.allocations > 1215560"));
}

TEST(Condition, TimesBeforeIsARatio) {
  EXPECT_FALSE(held("peak_rss > 1.1x"));
  EXPECT_TRUE(held("peak_rss > 0.5x"));
  EXPECT_TRUE(held("end_rss >= 1x"));
}

TEST(Condition, SignedValuesAreAboutTheChange) {
  EXPECT_TRUE(held("peak_rss < -274MiB"));
  EXPECT_FALSE(held("peak_rss < -275MiB"));
  EXPECT_TRUE(held("peak_rss <= -275MiB"));
  EXPECT_FALSE(held("totals.live_bytes > +64MiB"));
  EXPECT_TRUE(held("peak_rss < -36%"));
  EXPECT_FALSE(held("peak_rss > +10%"));
}

TEST(Condition, NamesOfPartsMayHoldSpaces) { EXPECT_TRUE(held("rss.parts.malloc: free, trimmable < -200MiB")); }

TEST(Condition, WhatCannotBeReadIsNamed) {
  const auto why = [](const char* text) {
    try {
      held(text);
    } catch (const BadCondition& bad) {
      return std::string(bad.what());
    }
    return std::string("read");
  };
  EXPECT_THAT(why("peak_rss"), HasSubstr("there is no > >= < or <= in it"));
  EXPECT_THAT(why("> 5"), HasSubstr("no figure before the comparison"));
  EXPECT_THAT(why("peak_rss >"), HasSubstr("no number after the comparison"));
  EXPECT_THAT(why("peak_rss > fast"), HasSubstr("no number after the comparison"));
  EXPECT_THAT(why("peak_rss > +-5"), HasSubstr("no number after the comparison"));
  EXPECT_THAT(why("peak_rss > 5 parsec"), HasSubstr("\"parsec\" is no unit"));
  EXPECT_THAT(why("peak_rss > 10%"), HasSubstr("needs a sign"));
  EXPECT_THAT(why("peak_rss > +1.1x"), HasSubstr("takes no sign"));
  EXPECT_THAT(why("rss.total > 5"), HasSubstr("there is no figure \"rss.total\""));
  EXPECT_THAT(why("peak_rss > 1.1x"), HasSubstr("read"));
}

TEST(Condition, AFigureThatIsNotKnownIsNotDecided) {
  Report after = with_one_arena();
  after.rss = {};
  const Diff diff = make_diff(sample_report(), after);
  EXPECT_THROW(holds(parse_condition("peak_rss > 1.1x"), diff), UnknownFigure);
}

TEST(Condition, ExplainsWhatWasCompared) {
  const Diff diff = make_diff(sample_report(), with_one_arena());
  EXPECT_EQ(explain(parse_condition("peak_rss < -10%"), diff), "peak_rss < -10%: 752.0 MiB before, 477.0 MiB after");
}

SiteReport site(std::vector<std::string> functions, std::uint64_t live, std::uint64_t line) {
  SiteReport site;
  for (std::string& each : functions) {
    FrameReport& frame = site.frames.emplace_back();
    frame.function = std::move(each);
    frame.file = "shop.cpp";
    frame.line = line++;
  }
  site.live_bytes = live;
  site.peak_bytes = 2 * live;
  site.bytes = 10 * live + 5;
  site.allocations = 3;
  return site;
}

TEST(Diff, ComparesSitesByTheFunctionsOfTheirStacks) {
  Report before = sample_report(), after = sample_report();
  before.trace.stacks = after.trace.stacks = "dwarf";
  before.sites = {site({"fill", "main"}, 5 * kMiB, 10), site({"gone", "main"}, kMiB, 20), site({"fill", "test"}, 7, 10)};
  after.sites = {site({"fill", "main"}, 9 * kMiB, 12), site({"fresh", "main"}, 2 * kMiB, 30), site({"fill", "test"}, 7, 12)};
  const Diff diff = make_diff(before, after);
  ASSERT_EQ(diff.sites.size(), 4u);
  EXPECT_EQ(diff.sites[0].frames[0].function, "fill");
  EXPECT_EQ(diff.sites[0].figures[0].change(), 4.0 * kMiB);
  EXPECT_EQ(diff.sites[1].frames[0].function, "fresh");
  EXPECT_EQ(diff.sites[1].figures[0].before, 0.0);
  EXPECT_EQ(diff.sites[2].figures[0].change(), -1.0 * kMiB);
  EXPECT_EQ(diff.sites[3].figures[0].change(), 0.0);
  const auto json = diff_json(diff);
  EXPECT_EQ(json["sites"][0]["frames"][1]["function"], "main");
  EXPECT_EQ(json["sites"][0]["live_bytes"]["change"], 4 * kMiB);
  EXPECT_EQ(json["sites_left_out"], 0);
  std::string text;
  for (const std::string& line : diff_text(diff, Screen{})) text += line + "\n";
  EXPECT_THAT(text, HasSubstr("Sites, live bytes"));
  EXPECT_THAT(text, HasSubstr("vanished"));
  EXPECT_THAT(text, HasSubstr("fresh at shop.cpp:30"));
  after.trace.stacks = "none";
  EXPECT_TRUE(make_diff(before, after).sites.empty());
}

}  // namespace
}  // namespace heapspy::report
