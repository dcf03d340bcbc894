// Every program of examples/ under the recorder: the verdict that stands at its top, and no other. One table: when a cell is
// wrong, all of it is printed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "analyzer/report/merged_build.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

using findings::Finding;
using report::Report;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kKinds = {"plug",           "retained",        "dynamic_threshold", "arena_growth",
                                         "pinned",         "secondary_tops",  "thread_caches",     "leak",
                                         "realloc_growth", "not_malloc",      "thread_stacks",     "many_mappings",
                                         "contention",     "huge_pages",      "recorder",          "zip_streams",
                                         "direct_buffers", "compiler_arenas", "collector_threads", "jni_leak"};

struct Scenario {
  std::string name;
  std::vector<std::string> command;     // the first word is a program of examples/
  std::vector<std::string> right = {};  // the kinds that must be found
  std::vector<std::string> also = {};   // that may be, as well
  std::function<void(const Report&)> look = {};
  // It waits at its end for a snapshot on demand: its threads, who never allocate, are seen by chance only else.
  bool waits = false;
};

bool holds(const std::vector<std::string>& kinds, const std::string& kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

const Finding& found(const Report& report, const std::string& kind) {
  static const Finding none;
  for (const Finding& each : report.findings)
    if (each.kind == kind) return each;
  return none;
}

// Returns when an example that runs with --wait and talks does nothing any more.
void wait_at_end(Recording& run) {
  while (run.read_line().find("waits for a line") == std::string::npos) {
  }
}

void take_snapshot(const Recording& run) {
  Recording snapshot({.command = {heapspy_program(), "snapshot", std::to_string(run.pid())}, .recorded = false});
  EXPECT_EQ(snapshot.finish().exit_status, 0) << snapshot.finish().err;
}

// What is said of one moment, and is no part of something else that is said, is counted once: it fits into RSS.
void expect_no_byte_counted_twice(const Report& report) {
  for (const report::RssReport* rss : {&report.rss, &report.rss_at_end}) {
    std::uint64_t sum = 0;
    for (const report::PartReport& part : rss->parts) sum += part.bytes;
    EXPECT_EQ(sum, rss->total_bytes.value_or(0));
  }
  for (const Finding& one : report.findings) {
    std::uint64_t sum = 0;
    for (const Finding& each : report.findings)
      if (each.moment == one.moment && each.part_of.empty() && !each.whole_run) sum += each.bytes;
    EXPECT_LE(sum, std::max(report.rss.total_bytes.value_or(0), report.rss_at_end.total_bytes.value_or(0)));
  }
  EXPECT_TRUE(std::is_sorted(report.findings.begin(), report.findings.end(),
                             [](const Finding& a, const Finding& b) { return a.bytes > b.bytes; }));
}

void pins(const Report& report) {
  const Finding& pinned = found(report, "pinned");
  EXPECT_THAT(pinned.text, HasSubstr("open_session"));
  EXPECT_THAT(pinned.text, HasSubstr("MALLOC_ARENA_MAX does not help"));
  ASSERT_TRUE(pinned.fix_saves_bytes);
  EXPECT_GT(*pinned.fix_saves_bytes, pinned.bytes * 9 / 10);
  EXPECT_THAT(*pinned.fix, HasSubstr("open_session"));
}

void thresholds(const Report& report) {
  EXPECT_THAT(found(report, "retained").text, HasSubstr("before start"));
  const Finding& dynamic = found(report, "dynamic_threshold");
  EXPECT_THAT(dynamic.text, HasSubstr("raised that threshold to 160.0 KiB and the trim threshold to 320.0 KiB"));
  EXPECT_THAT(*dynamic.fix, HasSubstr("MALLOC_TRIM_THRESHOLD_=131072, set before start"));
  EXPECT_GT(*dynamic.fix_saves_bytes, dynamic.bytes * 9 / 10);
}

void nothing_to_trim(const Report& report) {
  std::uint64_t trimmable = 0, system = 0;
  for (const report::ArenaReport& arena : report.arenas_at_end) {
    trimmable += arena.trimmable_bytes.value_or(0);
    system += arena.system_bytes.value_or(0);
  }
  EXPECT_EQ(trimmable, 0u);
  EXPECT_GT(report.process.peak_rss_bytes.value_or(0), 60u << 20);  // though it ends small
  EXPECT_GT(system, 30u << 20);                                     // what glibc's counters see
}

void names_its_growth(const Report& report) {
  const Finding& leak = found(report, "leak");
  EXPECT_THAT(leak.text, HasSubstr("a second"));
  EXPECT_THAT(leak.text, HasSubstr("handle_request"));
  for (const Finding& each : report.findings) {
    EXPECT_EQ(each.fix, std::nullopt);
    EXPECT_THAT(each.text + each.to_try.value_or(""), Not(HasSubstr("MALLOC_")));
  }
}

void names_the_line(const Report& report) {
  EXPECT_THAT(found(report, "realloc_growth").text, HasSubstr("append"));
  EXPECT_THAT(found(report, "realloc_growth").text, HasSubstr("realloc_growth.cpp:"));
}

void limits_no_arenas(const Report& report) {
  for (const Finding& each : report.findings) {
    EXPECT_EQ(each.fix, std::nullopt);
    EXPECT_THAT(each.to_try.value_or(""), Not(HasSubstr("arena_max")));
  }
}

void says_stacks(const Report& report) {
  EXPECT_THAT(found(report, "not_malloc").text, HasSubstr("the largest part is thread stacks"));
  EXPECT_THAT(found(report, "thread_stacks").text, HasSubstr("No"));
  EXPECT_THAT(found(report, "thread_stacks").part_of, testing::ElementsAre("not_malloc"));
}

void predicts_arena_max(const Report& report) {
  const Finding& growth = found(report, "arena_growth");
  EXPECT_THAT(growth.fix.value_or(""), HasSubstr("MALLOC_ARENA_MAX=2, set before start"));
  EXPECT_GT(growth.fix_saves_bytes.value_or(0), growth.bytes / 2);
  EXPECT_TRUE(growth.cost);
}

std::vector<Scenario> scenarios() {
  return {
      {"fragmentation", {"fragmentation", "60000"}, {"plug"}},
      {"fragmentation, no byte", {"fragmentation", "60000", "--without"}},
      {"three_chunks", {"three_chunks"}},
      {"arena_growth",
       {"arena_growth", "12", "5", "2"},
       {"retained", "arena_growth"},
       {"pinned", "thread_caches"},
       predicts_arena_max},
      {"pinned_main_heap", {"pinned_main_heap", "9000"}, {"pinned"}, {}, pins},
      {"pinned, kept apart", {"pinned_main_heap", "9000", "--without"}},
      {"retained", {"retained", "400"}, {"retained", "dynamic_threshold"}, {}, thresholds},
      {"trim_again", {"trim_again", "60000"}, {}, {}, nothing_to_trim},
      {"trim_again, not trimmed", {"trim_again", "60000", "--without"}, {"plug"}},
      // Whether threads did run at once is the machine's to say; limits on arenas must not be offered either way.
      {"contention", {"contention", "16", "8000"}, {}, {"contention"}, limits_no_arenas},
      {"contention, in turn", {"contention", "16", "8000", "--without"}},
      {"steady_leak", {"steady_leak", "600"}, {"leak"}, {}, names_its_growth},
      {"sawtooth", {"steady_leak", "600", "--without"}},
      {"thread_stacks", {"thread_stacks", "150"}, {"not_malloc", "thread_stacks"}, {}, says_stacks, true},
      {"thread_stacks, unused", {"thread_stacks", "150", "--without"}},
      {"realloc_growth", {"realloc_growth", "16"}, {"realloc_growth"}, {}, names_the_line},
      {"realloc_growth, doubled", {"realloc_growth", "16", "--without"}},
      {"wandering_code", {"wandering_code", "2000", "1"}, {"many_mappings"}, {"not_malloc"}},
  };
}

TEST(Scenarios, EveryProgramGetsItsRightVerdictAndNoWrongOne) {
  std::string table = fmt::format("{:26}", "");
  for (const std::string& kind : kKinds) table += fmt::format(" {}", kind);
  table += '\n';
  std::vector<std::string> wrong;
  for (const Scenario& scenario : scenarios()) {
    SCOPED_TRACE(scenario.name);
    std::vector<std::string> command = scenario.command;
    command[0] = std::string(HEAPSPY_EXAMPLES) + "/" + command[0];
    if (scenario.waits) command.push_back("--wait");
    Recording run({.command = command, .talks = scenario.waits});
    if (scenario.waits) {
      wait_at_end(run);
      take_snapshot(run);
      run.write_line("");
      run.read_rest();
    }
    ASSERT_EQ(run.finish().exit_status, 0) << run.finish().err;
    const Report report = run.report();
    expect_whole(report);
    expect_no_byte_counted_twice(report);
    table += fmt::format("{:26}", scenario.name);
    for (const std::string& kind : kKinds) {
      const bool is = found(report, kind).kind == kind;
      const bool must = holds(scenario.right, kind), may = must || holds(scenario.also, kind);
      const char* cell = is ? may ? "yes" : "WRONG" : must ? "MISSING" : ".";
      table += fmt::format(" {:>{}}", cell, kind.size());
      if (is != must && !(is && may)) wrong.push_back(fmt::format("{}: {} {}", scenario.name, kind, cell));
    }
    table += '\n';
    for (const Finding& each : report.findings) EXPECT_TRUE(holds(kKinds, each.kind)) << each.kind << " is not in the table";
    if (scenario.look) scenario.look(report);
  }
  EXPECT_THAT(wrong, testing::IsEmpty()) << table;
}

// Its threads make no event at all: the helper, which is there since the first of them, looks for peaks in their place.
TEST(Scenarios, APeakOfRssWithoutAnAllocationIsSeen) {
  Recording run({.command = {std::string(HEAPSPY_EXAMPLES) + "/thread_stacks", "150", "--wait"}, .talks = true});
  wait_at_end(run);
  const auto peaks = [&] {
    const trace::Reader reader(run.trace());
    std::size_t count = 0;
    for (std::size_t i = 0; i < reader.snapshots(); i++) count += reader.snapshot_reason(i) == format::SnapshotReason::peak;
    return count;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (peaks() == 0 && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_GE(peaks(), 1u);
  run.write_line("");
  run.read_rest();
  EXPECT_EQ(run.finish().exit_status, 0);
}

// A server that forks workers: one report over the family, and what each has for itself told from what it shares.
TEST(Scenarios, AFamilyOfForkedWorkersIsOneReportThatTellsSharedFromPrivate) {
  Recording run({.command = {std::string(HEAPSPY_EXAMPLES) + "/prefork", "72", "2"}});
  ASSERT_EQ(run.finish().exit_status, 0) << run.finish().err;
  const report::MergedReport merged = report::build_merged(run.traces(), "prefork", {});
  ASSERT_EQ(merged.processes.size(), 3u);
  for (const report::ProcessRow& row : merged.processes) {
    ASSERT_TRUE(row.private_dirty_bytes);
    EXPECT_LT(*row.private_dirty_bytes, row.forked ? 40u << 20 : 80u << 20);  // a quarter of 72 MiB, and its own
  }
  for (const Report& report : run.reports()) {
    expect_no_byte_counted_twice(report);
    for (const Finding& each : report.findings) ADD_FAILURE() << each.kind << ": " << each.text;
  }
}

// The ledger of a process that stands still, against the kernel's own sum over its mappings.
TEST(Scenarios, PartsOfTheLedgerSumToTheKernelsRssToTheByte) {
  Recording run({.command = {std::string(HEAPSPY_EXAMPLES) + "/arena_growth", "4", "2", "1", "--wait"}, .talks = true});
  wait_at_end(run);
  take_snapshot(run);  // the recorder's own pages are there after the first one
  take_snapshot(run);
  const std::string rollup = content_of("/proc/" + std::to_string(run.pid()) + "/smaps_rollup");
  const std::uint64_t kib = std::stoull(rollup.substr(rollup.find("Rss:") + 4));
  run.write_line("");
  run.read_rest();
  ASSERT_EQ(run.finish().exit_status, 0);
  const Report report = run.report();
  ASSERT_GE(report.ledgers.size(), 3u);
  const report::LedgerReport& ledger = report.ledgers[report.ledgers.size() - 2];  // the last is of the exit
  EXPECT_EQ(ledger.total_bytes, kib * 1024);
  std::uint64_t sum = 0;
  for (const report::PartReport& part : ledger.parts) sum += part.bytes;
  EXPECT_EQ(sum, kib * 1024);
}

// Of what is not in the trace nobody knows whether it lives: blocks of lost calls must not pass for free memory.
TEST(Scenarios, WhereManyEventsAreLostNothingIsClaimedOfFreeMemory) {
  Recording run(
      {.command = {std::string(HEAPSPY_EXAMPLES) + "/pinned_main_heap", "9000"}, .environment = {{"HEAPSPY_MAX", "200KiB"}}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const Report report = run.report();
  EXPECT_GT(report.trace.lost_events, 1000u);
  EXPECT_THAT(report.findings, testing::IsEmpty());
  bool one = false;
  for (const report::PartReport& part : report.rss.parts) {
    one |= part.name == "malloc";
    EXPECT_FALSE(part.name.starts_with("malloc: ")) << part.name;
  }
  EXPECT_TRUE(one);
}

}  // namespace
}  // namespace heapspy::test
