#include "analyzer/report/report_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/report/printable.h"
#include "analyzer/report/sections.h"
#include "analyzer/report/summary.h"
#include "tests/report/sample_report.h"

namespace heapspy::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(ReportText, IsThisPageOffATerminal) {
  EXPECT_EQ(joined(report_text(sample_report(), {})),
            R"(java -Xmx192m -jar zip_threads.jar     pid 4242 · 14.2 s · ended normally · 2 431 118 events, 0 lost
12 events were put in order by what must have come first, their times being too coarse.
glibc 2.36 · 2 arenas (limit 16 = 8 × 2 CPUs) · MALLOC_ARENA_MAX not set

RSS                               at its peak (9.8 s)        at the end (14.2 s)
  total                                     752.0 MiB                  517.0 MiB
    malloc: live                             31.0 MiB   4 %              1.0 MiB  <1 %
    malloc: rounding and headers              2.0 MiB  <1 %                  0 B   0 %
    malloc: free, pinned                     88.0 MiB  12 %                  0 B   0 %
    malloc: free, trimmable                 375.0 MiB  50 %            400.0 MiB  77 %
    malloc: free, cached                     11.0 MiB   1 %                  0 B   0 %
    Java heap                               148.0 MiB  20 %                  0 B   0 %
    other                                    97.0 MiB  13 %            116.0 MiB  22 %
  (between snapshots RSS was 760.0 MiB once: the kernel's high-water mark)

What this means
  1  Retained, 375.0 MiB at the RSS peak (9.8 s). Whole free pages that glibc keeps, in 16 arenas.
     Fix:  malloc_trim(0) at that moment   returns 375.0 MiB (predicted)
     Cost: page faults
     Try:  MALLOC_TRIM_THRESHOLD_=131072, set before start
  2  Arena growth, 210.0 MiB of it at the end (14.2 s). Threads named zip-storm-worker-# use little.

Threads (2)                             allocations      bytes       live      peak  freed by others
  zip-storm-worker-with-a-long-name-13       14 204  212.0 MiB    2.1 MiB  21.2 MiB             12 %
  main                                        1 000   40.0 MiB  409.6 KiB   4.0 MiB             12 %
Allocations by size                 <32 B  <128 B  <512 B  <2 KiB  <8 KiB  <32 KiB  <128 KiB  larger
  zip-storm-worker-with-a-long-na…  7 102       0       0       0       0        0     7 102       0
  main                                500       0       0       0       0        0       500       0

Arenas (2) at the RSS peak (9.8 s)
             system  resident     live  trimmable   pinned    cached  plug
  main     12.0 MiB  11.0 MiB  1.5 MiB    5.0 MiB  1.0 MiB  64.0 KiB  48 B, 3.1 s, main
  arena 2  41.0 MiB  40.0 MiB  1.5 MiB   36.0 MiB  1.0 MiB  64.0 KiB  48 B, 3.1 s, main

Sizes      allocations      bytes       live    Lifetimes    blocks           bytes
  <32 B          7 602  178.2 KiB      240 B      <10 us      9 000  75 %  87.9 KiB
  <64 KiB        7 602  252.0 MiB  146.5 KiB      <1 ms       3 000  25 %   4.0 MiB
                                                  >100000 s      10  <1 %     480 B

Over time         RSS     system      live    pinned
  0.100 s           ?          ?   1.0 MiB         ?
  9.500 s           ?          ?  62.0 MiB         ?
  9.800 s   752.0 MiB  500.0 MiB  60.0 MiB  88.0 MiB
  14.200 s  517.0 MiB  480.0 MiB  31.0 MiB  70.0 MiB

Next: heapspy report heapspy.java.4242.hspy --by thread|size|arena · heapspy diff BEFORE AFTER
      heapspy compare --with default,arena_max=2,jemalloc -- CMD
)");
}

TEST(ReportText, DrawsOnATerminalOnly) {
  const std::string plain = joined(report_text(sample_report(), {}));
  const std::string drawn = joined(report_text(sample_report(), {{true, false}, By::everything, std::nullopt}));
  EXPECT_THAT(plain, ::testing::Not(HasSubstr("█")));
  EXPECT_THAT(
      drawn,
      HasSubstr("    malloc: free, trimmable                 375.0 MiB  50 %            400.0 MiB  77 %  ████████████\n"));
  EXPECT_THAT(drawn, HasSubstr("12 %  █     █\n"));
  EXPECT_EQ(drawn.find('\x1b'), std::string::npos);
}

TEST(ReportText, ColoursOnlyWhereAsked) {
  const std::string coloured = joined(report_text(sample_report(), {{true, true}, By::everything, std::nullopt}));
  EXPECT_THAT(coloured, HasSubstr("\x1b[1mWhat this means\x1b[0m"));
  EXPECT_THAT(coloured, HasSubstr("  1  \x1b[31;1mRetained, 375.0 MiB at the RSS peak (9.8 s).\x1b[0m Whole free"));
}

TEST(ReportText, LossAndDamageStandInTheFirstLines) {
  Report report = sample_report();
  report.trace.lost_events = 1200;
  report.trace.stop = "the disk was full (No space left on device)";
  report.trace.damage = {{4096, "bad checksum"}, {8192, "cut"}};
  report.totals.unknown_frees = 3;
  const auto lines = report_text(report, {});
  EXPECT_EQ(lines[0], "java -Xmx192m -jar zip_threads.jar");
  EXPECT_EQ(lines[1], "pid 4242 · 14.2 s · ended normally · 2 431 118 events, 1 200 lost");
  EXPECT_EQ(lines[2], "Incomplete: 1 200 events are lost, so counts are too low by as many and blocks may seem alive that");
  EXPECT_EQ(lines[3], "were freed.");
  EXPECT_EQ(lines[4], "Recording stopped early: the disk was full (No space left on device).");
  EXPECT_EQ(lines[5], "Damaged: 2 places in the trace; the first at byte 4096: bad checksum.");
  EXPECT_EQ(lines[6], "3 frees of blocks whose allocation the trace does not hold.");
}

TEST(ReportText, SettingsOfTheAllocatorAreShown) {
  Report report = sample_report();
  report.process.environment = {{"MALLOC_ARENA_MAX", "2"}, {"GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"}};
  EXPECT_EQ(allocator_line(report), "glibc 2.36 · 2 arenas · MALLOC_ARENA_MAX=2 · GLIBC_TUNABLES=glibc.malloc.tcache_count=0");
  report.process.environment = {{"GLIBC_TUNABLES", "glibc.malloc.arena_max=1"}};
  EXPECT_EQ(allocator_line(report), "glibc 2.36 · 2 arenas · GLIBC_TUNABLES=glibc.malloc.arena_max=1");
}

TEST(ReportText, AnotherAllocatorIsNotDescribedInGlibcsWords) {
  Report report = sample_report();
  report.process.allocator_name = "jemalloc";
  report.process.allocator_version = "5.3.0";
  EXPECT_EQ(allocator_line(report), "jemalloc 5.3.0 · not glibc, so arenas, pinned and trimmable bytes are not known");
}

TEST(ReportText, WhatIsUnknownIsAQuestionMark) {
  Report report = sample_report();
  report.rss = report.rss_at_end = {};
  report.findings.clear();
  report.arenas = report.arenas_at_end = {ArenaReport{}};
  report.arenas[0].kind = report.arenas_at_end[0].kind = "other";
  report.process.duration_s.reset();
  const std::string text = joined(report_text(report, {}));
  EXPECT_THAT(text, HasSubstr("pid 4242 · ? · ended normally"));
  EXPECT_THAT(text, HasSubstr("RSS is not known: the trace holds no snapshot"));
  EXPECT_THAT(text, HasSubstr("Nothing stands out in the calls; without a snapshot nothing is known about RSS."));
  EXPECT_THAT(text, HasSubstr("  other       ?         ?     ?          ?       ?       ?\n"));
}

// A process that is killed after its burst: its snapshot is of the peak.
TEST(ReportText, WhatCameAfterTheLastSnapshotIsNotJudged) {
  Report report = sample_report();
  report.findings.clear();
  report.end_at.last_snapshot = true;
  report.end_at.time_s = 0.4;
  report.end_at.live_bytes = 200 << 20;
  report.totals.live_bytes = 1 << 20;
  std::string text = joined(report_text(report, {}));
  EXPECT_THAT(text,
              HasSubstr("Nothing stands out at the snapshots; what the process kept after the last one nobody has seen."));
  EXPECT_THAT(text, HasSubstr("live memory went from 200.0 MiB\n  to 1.0 MiB"));
  EXPECT_THAT(text, HasSubstr("HEAPSPY_SNAPSHOT=peak,exit,every=10s"));
  report.totals.live_bytes = 200 << 20;
  text = joined(report_text(report, {}));
  EXPECT_THAT(text, HasSubstr("Nothing stands out: no part that some setting"));
}

TEST(ReportText, AnEmptyReportIsStillAReport) {
  const auto lines = report_text(Report{}, {});
  EXPECT_THAT(joined(lines), HasSubstr("0 events, 0 lost"));
  for (const std::string& line : lines) EXPECT_LE(columns(line), kWidth);
}

TEST(ReportText, OneTableInFullOnRequest) {
  Report report = sample_report();
  for (std::uint32_t id = 3; id < 40; id++) {
    report.threads.push_back(report.threads[0]);
    report.threads.back().id = id;
  }
  EXPECT_THAT(joined(report_text(report, {{}, By::everything, std::nullopt})), HasSubstr("Threads (8 of 39)"));
  EXPECT_THAT(joined(report_text(report, {{}, By::thread, std::nullopt})), HasSubstr("Threads (39)"));
  EXPECT_THAT(joined(report_text(report, {{}, By::thread, 5})), HasSubstr("Threads (5 of 39)"));
  const std::string arenas = joined(report_text(report, {{}, By::arena, std::nullopt}));
  EXPECT_THAT(arenas, HasSubstr("      threads: zip-storm-worker-with-a-long-name-13, main\n"));
  EXPECT_EQ(arenas.find("Threads ("), std::string::npos);
}

TEST(ReportText, HostileNamesNeitherWidenNorControlTheTerminal) {
  Report report = sample_report();
  const std::string longest(65536, 'x');
  report.process.command = {"\x1b]0;title\x07", longest};
  report.process.allocator_version = longest;
  report.process.environment.emplace_back("MALLOC_ARENA_MAX", "\x1b[2J" + longest);
  report.threads[0].name = "\x1b[31m\xff\n<b>" + longest;
  report.threads[1].name = "\u202E線程" + longest;
  report.trace.damage = {{1, "\x1b" + longest}};
  report.trace.stop = longest + "\n";
  report.trace.path = "\x1b" + longest;
  report.rss.parts.push_back({"\x1b" + longest, 77});
  report.rss.notes = {"\x07" + longest};
  report.findings[0].text = longest + "\x1b[0m";
  report.findings[0].to_try = longest;
  for (const bool terminal : {false, true})
    for (const By by : {By::everything, By::thread, By::size, By::arena})
      for (const std::string& line : report_text(report, {{terminal, false}, by, std::nullopt})) {
        EXPECT_LE(columns(line), kWidth) << line.substr(0, 200);
        EXPECT_EQ(line.find_first_of("\x1b\x07\n\xff"), std::string::npos) << line.substr(0, 200);
      }
  EXPECT_LE(report_text(report, {}).size(), 90u);
}

TEST(ReportText, IsAboutAPage) { EXPECT_LE(report_text(sample_report(), {}).size(), 60u); }

TEST(ReportText, NextCommandsReachARunningProcess) {
  Report report = sample_report();
  EXPECT_THAT(joined(next_lines(report)), ::testing::Not(HasSubstr("trim")));
  report.process.end = "running";
  EXPECT_THAT(joined(next_lines(report)), HasSubstr("heapspy trim 4242"));
}

TEST(ReportText, TheKernelsHighWaterMarkIsToldWhereNoSnapshotWasNear) {
  Report report = sample_report();
  EXPECT_THAT(joined(ledger_lines(report, {})), HasSubstr("between snapshots RSS was 760.0 MiB once"));
  report.process.peak_rss_bytes = *report.rss.total_bytes + 4096;
  EXPECT_THAT(joined(ledger_lines(report, {})), ::testing::Not(HasSubstr("between snapshots")));
}

TEST(ReportText, WhatRecordingTookStandsUnderTheLedger) {
  Report report = sample_report();
  EXPECT_THAT(joined(ledger_lines(report, {})), ::testing::Not(HasSubstr("to begin, append")));
  report.trace.events = 1'000'000;
  report.recorder = {4 << 20, 3 << 20, 0.0125, 0.0027, 2.7};
  EXPECT_THAT(joined(ledger_lines(report, {})),
              HasSubstr("  heapspy itself: 3.0 MiB dirty; 12.5 ms to begin, append and take snapshots (measured), 2.7 ms in\n"
                        "  the program's calls (predicted: 1 000 000 events × 2.7 ns)"));
  report.recorder.dirty_bytes = std::nullopt;
  report.recorder.predicted_s = report.recorder.ns_per_event = std::nullopt;
  EXPECT_THAT(joined(ledger_lines(report, {})), HasSubstr("heapspy itself: ? dirty; "));
  EXPECT_THAT(joined(ledger_lines(report, {})), HasSubstr("(measured), ? in"));
}

TEST(ReportText, ALastSnapshotIsNotCalledTheEnd) {
  Report report = sample_report();
  report.process.end = "running";
  report.end_at = {10.2, "end", 40 * (1 << 20), {}, {}, true};
  report.totals.live_bytes = 1;
  const std::string text = joined(ledger_lines(report, {}));
  EXPECT_THAT(text, HasSubstr("at the last snapshot (10.2 s)"));
  EXPECT_THAT(text, HasSubstr("after the last one, at 10.2 s, live memory went from 40.0 MiB to\n  1 B, and"));
  report.totals.live_bytes = 40 * (1 << 20) - 4096;
  EXPECT_THAT(joined(ledger_lines(report, {})), ::testing::Not(HasSubstr("live memory went")));
}

TEST(ReportText, SaysSoWhereTheMomentIsNotTheOneThatWasAskedFor) {
  Report report = sample_report();
  report.at = {9.8, "asked", 60 * (1 << 20), 11.5, 20 * (1 << 20), false};
  EXPECT_THAT(joined(ledger_lines(report, {})),
              HasSubstr("(no snapshot at 11.5 s: this is the last one before it; live memory went from 60.0 MiB to "
                        "20.0 MiB\n  until then)"));
  report.at.asked_s = 9.8;
  EXPECT_THAT(joined(ledger_lines(report, {})), ::testing::Not(HasSubstr("no snapshot at")));
  report.at.asked_s = 0.001;
  report.rss.total_bytes.reset();
  EXPECT_EQ(ledger_lines(report, {})[0], "RSS is not known at 1.0 ms: the first snapshot came later.");
}

TEST(ReportText, OneSnapshotThatIsPeakAndEndIsShownOnce) {
  Report report = sample_report();
  report.end_at = {9.8, "end", 60 * (1 << 20), {}, {}, false};
  EXPECT_THAT(ledger_lines(report, {})[0], ::testing::EndsWith("at its peak and the end (9.8 s)"));
  EXPECT_EQ(five_lines(report)[1], "RSS 752.0 MiB at its peak and the end (9.8 s); live at most 62.0 MiB at once");
}

TEST(Summary, IsFiveLines) {
  EXPECT_THAT(five_lines(sample_report()),
              ElementsAre("14.2 s, ended normally; 2 431 118 events, 0 lost; 2 threads",
                          "RSS 752.0 MiB at its peak (9.8 s), 517.0 MiB at the end (14.2 s); live at most 62.0 MiB at once",
                          "glibc 2.36 · 2 arenas (limit 16 = 8 × 2 CPUs) · MALLOC_ARENA_MAX not set",
                          "Retained, 375.0 MiB at the RSS peak (9.8 s). Whole free pages that glibc keeps, in 16 arenas.",
                          "Arena growth, 210.0 MiB of it at the end (14.2 s). Threads named zip-storm-worker-# use little."));
}

TEST(Summary, LossComesBeforeEverythingElse) {
  Report report = sample_report();
  report.trace.lost_events = 7;
  const auto lines = five_lines(report);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_THAT(lines[1], StartsWith("Incomplete: 7 events are lost"));
}

}  // namespace
}  // namespace heapspy::report
