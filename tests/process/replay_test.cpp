// `heapspy replay` on recorded programs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/process/recording.h"
#include "tests/support/amounts.h"
#include "tests/support/trace_builder.h"

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
  EXPECT_EQ(json["runs"][0]["operations"], calls);
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

TEST(Replay, InWindowsPlaysTheSameCallsAndSaysWhatLocksCost) {
  Recording run({.command = {victim("w3_pass"), "20000", "4"}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const nlohmann::json total = replay(run, "default")["runs"][0];
  const Outcome shown =
      run_plain({heapspy_program(), "replay", run.trace(), "--with", "default", "--order", "window", "--json"});
  ASSERT_EQ(shown.exit_status, 0) << shown;
  const nlohmann::json window = nlohmann::json::parse(shown.out)["runs"][0];
  EXPECT_EQ(window["operations"], total["operations"]);
  EXPECT_EQ(window["failed"], 0);
  EXPECT_TRUE(window["lock_waits"].is_number());
  EXPECT_EQ(total["cost_order"], "window");
}

// Blocks of 200 KiB, freed in the order in which they came: each is a mapping of its own as long as the threshold is given.
TEST(Replay, CountsWhatTheAllocatorAsksOfTheKernelAndSaysWhatTheHeapWasMadeOf) {
  constexpr std::uint64_t kBlocks = 50, kBytes = 200'000;
  TraceBuilder trace;
  auto& thread = trace.thread("main", 100);
  thread.stamp(10);
  for (std::uint64_t i = 0; i < kBlocks; i++) thread.malloc(0x1000000 + i * 0x100000, kBytes);
  for (std::uint64_t i = 1; i < kBlocks; i++) thread.free(0x1000000 + i * 0x100000);
  const TemporaryFile file(trace.bytes());
  const Outcome shown = run_plain({heapspy_program(), "replay", file.path(), "--with", "mmap_threshold=128KiB", "--json"});
  ASSERT_EQ(shown.exit_status, 0) << shown;
  const nlohmann::json run = nlohmann::json::parse(shown.out)["runs"][0];
#if defined(__x86_64__)
  ASSERT_TRUE(run["syscalls"].is_object()) << "seccomp is refused here";
  EXPECT_EQ(run["syscalls"]["mmap"], kBlocks);
  EXPECT_EQ(run["syscalls"]["munmap"], kBlocks - 1);
  EXPECT_LE(run["syscalls"]["brk"], 2) << "for the cache of the thread";
  EXPECT_EQ(run["syscalls"]["madvise"], 0);
#endif
  if (run["ledger"].is_null()) GTEST_SKIP() << "the heap of another process cannot be looked at here";
  const auto in_use = [&](const char* moment) -> std::uint64_t {
    for (const auto& part : run["ledger"][moment])
      if (part["name"] == "in use") return part["bytes"];
    return 0;
  };
  EXPECT_GE(in_use("peak"), kBlocks * kBytes);
  EXPECT_LT(in_use("peak"), kBlocks * kBytes * 11 / 10);
  EXPECT_GE(in_use("end"), kBytes);
  EXPECT_LT(in_use("end"), kBytes * 2);
}

TEST(Replay, TakesWhatWasTouchedFromTheTrace) {
  Recording run({.command = {victim("touches_pages")}, .environment = {{"HEAPSPY_TOUCH", "on"}}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const nlohmann::json json = replay(run, "default,mmap_threshold=16KiB");
  EXPECT_EQ(json["touch"], "recorded");
  // Each block in a mapping of its own: `all`, whose pages were all written, is the largest; of `fresh`, 16 MiB, 5 pages were.
  const std::uint64_t peak = json["runs"][1]["peak_heap_bytes"];
  EXPECT_GE(peak, 64u * 4096);
  EXPECT_LT(peak, 128u * 4096);
}

// When the last trim comes before the end is by chance: the range has the end just after one and the end a period after.
TEST(Replay, OfTrimsByTheClockSaysBetweenWhatTheEndMayLie) {
  constexpr std::uint64_t kBlocks = 40, kBytes = 100'000;
  TraceBuilder trace;
  trace.header().end_tick = 3 * kSecond;
  auto& thread = trace.thread("main", 100);
  for (std::uint64_t i = 0; i <= kBlocks; i++) thread.stamp(10 + i).malloc(0x100000 + i * 0x20000, kBytes);
  // The last stays, above them all.
  for (std::uint64_t i = 0; i < kBlocks; i++) thread.stamp(5 * kSecond / 2 + i).free(0x100000 + i * 0x20000);
  thread.stamp(5 * kSecond / 2 + kBlocks);
  const TemporaryFile file(trace.bytes());
  const Outcome shown = run_plain({heapspy_program(), "replay", file.path(), "--with", "default,trim=1", "--json"});
  ASSERT_EQ(shown.exit_status, 0) << shown;
  const nlohmann::json runs = nlohmann::json::parse(shown.out)["runs"];
  EXPECT_GE(runs[0]["end_heap_bytes"], kBlocks * kBytes);
  EXPECT_LT(runs[1]["end_heap_bytes"], kBlocks * kBytes / 4) << "trimmed at 3 s";
  EXPECT_LT(runs[1]["end_heap_range_bytes"][0], kBlocks * kBytes / 4);
  EXPECT_GE(runs[1]["end_heap_range_bytes"][1], kBlocks * kBytes) << "trimmed at 2 s, before the frees";
}

// No trace holds the program's own malloc_trim; that it ended with less shows in its last snapshot.
TEST(Replay, OfAProgramThatEndedWithLessSaysSo) {
  TraceBuilder trace;
  auto& thread = trace.thread("main", 100);
  for (std::uint64_t i = 0; i <= 40; i++) thread.stamp(10 + i).malloc(0x100000 + i * 0x20000, 100'000);
  for (std::uint64_t i = 0; i < 40; i++) thread.stamp(100 + i).free(0x100000 + i * 0x20000);
  thread.stamp(200);
  trace::Snapshot snapshot;
  snapshot.begin = snapshot.end = 200;
  snapshot.reason = format::SnapshotReason::exit;
  trace::Mapping& heap = snapshot.mappings.emplace_back();
  heap.start = 0x100000, heap.end = 0x700000, heap.rss_bytes = 1 << 20, heap.read = heap.write = true, heap.name = "[heap]";
  trace.snapshot(snapshot);
  const TemporaryFile file(trace.bytes());
  const Outcome shown = run_plain({heapspy_program(), "replay", file.path(), "--with", "default", "--json"});
  ASSERT_EQ(shown.exit_status, 0) << shown;
  const nlohmann::json json = nlohmann::json::parse(shown.out);
  ASSERT_EQ(json["notes"].size(), 1u) << shown;
  const std::string note = json["notes"][0];
  EXPECT_TRUE(note.starts_with("the recorded process ended with at most 1.0 MiB of heap in RAM, its replay with 3.")) << note;
  EXPECT_EQ(json["runs"][0]["end_heap_range_bytes"][0], 768 << 10);
}

// One letter a setting; the highest curve's peak stands at the top of the axis, the end of the trace at its right.
TEST(Replay, DrawsTheHeapOverTimeForEachSetting) {
  TraceBuilder trace;
  trace.header().end_tick = 4 * kSecond;
  auto& thread = trace.thread("main", 100);
  for (std::uint64_t i = 0; i <= 40; i++) thread.stamp(10 + i).malloc(0x100000 + i * 0x20000, 100'000);
  for (std::uint64_t i = 0; i < 40; i++) thread.stamp(kSecond + i).free(0x100000 + i * 0x20000);
  thread.stamp(kSecond + 40);
  const TemporaryFile file(trace.bytes());
  const Outcome shown = run_plain({heapspy_program(), "replay", file.path(), "--with", "default,trim=2"});
  ASSERT_EQ(shown.exit_status, 0) << shown;
  std::istringstream lines(shown.out);
  std::vector<std::string> plot;
  for (std::string line; std::getline(lines, line);)
    if (!plot.empty() || line.starts_with("Heap in RAM over the trace's time")) plot.push_back(line);
  ASSERT_GE(plot.size(), 17u) << shown;
  // Both hold 3.9 MiB for two seconds of four; then only the one that is not trimmed does. A column shows its highest.
  EXPECT_TRUE(plot[1].starts_with("   3.9 MiB |")) << shown;
  EXPECT_EQ(plot[1].find('t'), std::string::npos) << shown;
  EXPECT_TRUE(plot[1].ends_with("dddddddddd")) << shown;
  EXPECT_TRUE(plot[14].ends_with("tttttttttt")) << shown;
  EXPECT_EQ(plot[14].find('t'), plot[1].find('d') + (plot[1].size() - plot[1].find('d')) / 2 + 1) << shown;
  EXPECT_TRUE(plot[16].ends_with("4.0 s")) << shown;
}

TEST(Replay, OfWhatAReportsFindingsSuggestStandsInItsTextAndItsPage) {
  Recording run({.command = {victim("keeps_arenas")}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const Outcome text = run_plain({heapspy_program(), "report", run.trace(), "--prove"});
  ASSERT_EQ(text.exit_status, 0) << text;
  const std::size_t at = text.out.find("Proved by replay (default: the heap's peak ");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_NE(text.out.find("arena_max=", at), std::string::npos) << text;
  const Outcome page = run_plain({heapspy_program(), "report", run.trace(), "--prove", "--html", "-"});
  ASSERT_EQ(page.exit_status, 0) << page;
  const std::size_t on_page = page.out.find("Proved by replay (default: ");
  ASSERT_NE(on_page, std::string::npos);
  EXPECT_NE(page.out.find("arena_max=", on_page), std::string::npos);
  EXPECT_NE(page.out.find("<br>", on_page), std::string::npos) << "a line each";
  EXPECT_EQ(page.out.find("Proved by replay", on_page + 1), std::string::npos);
  EXPECT_TRUE(page.out.ends_with("</html>\n")) << "nothing but the page";
}

// ---- hostile traces

TEST(Replay, OfImpossibleSizesAndUnknownBlocksIsSafe) {
  TraceBuilder trace;
  auto& thread = trace.thread("main", 100);
  thread.stamp(10).malloc(0x1000, 24).free(0x9000).realloc(0x7000, 0x8000, 100).aligned(0x20000, 10, 40);
  thread.operator_new(0x40000, (1ull << 62)).free(0x40000).realloc(0x8000, 0x50000, 1ull << 62).calloc(0x60000, ~0ull >> 1);
  const TemporaryFile file(trace.bytes());
  const Outcome shown = run_plain({heapspy_program(), "replay", file.path(), "--with", "default", "--json"});
  ASSERT_EQ(shown.exit_status, 0) << shown;
  const nlohmann::json json = nlohmann::json::parse(shown.out);
  EXPECT_EQ(json["left_out"], 2);
  ASSERT_EQ(json["runs"].size(), 1u) << shown;
  EXPECT_EQ(json["runs"][0]["failed"], 3);
}

TEST(Replay, OfMoreMemoryThanThereIsSaysSoInOneLine) {
  TraceBuilder trace;
  auto& thread = trace.thread("main", 100);
  thread.stamp(10);
  const auto memory = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  thread.malloc(1ull << 40, memory / 100 * 95);
  const TemporaryFile file(trace.bytes());
  const Outcome shown = run_plain({heapspy_program(), "replay", file.path(), "--with", "default", "--json"});
  ASSERT_EQ(shown.exit_status, 0) << shown;
  const nlohmann::json json = nlohmann::json::parse(shown.out);
  // Where the kernel does not promise so much, each is refused instead.
  if (!json["runs"].empty()) GTEST_SKIP() << "no overcommit here";
  EXPECT_EQ(json["missing"][0]["reason"], "the heap would take more memory than this machine has free");
}

TEST(Replay, OfMoreThreadsThanAMachineCanHaveIsRefusedInOneLine) {
  TraceBuilder trace;
  for (std::uint32_t i = 1; i <= 20'000; i++) trace.thread("t", i).malloc(i * 0x1000ull, 10);
  const TemporaryFile file(trace.bytes());
  const Outcome shown = run_plain({heapspy_program(), "replay", file.path(), "--with", "default"});
  EXPECT_EQ(shown.exit_status, 3);
  EXPECT_EQ(shown.err, "heapspy: the trace has more than 16384 threads at a time; so many are not played\n");
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
