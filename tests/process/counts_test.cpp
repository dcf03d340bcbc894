// Every call is counted, by thread and by entry point, whatever allocator answers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <ostream>

#include "analyzer/model/counted.h"
#include "analyzer/trace/reader.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

struct Known {
  const char* thread;
  std::uint64_t allocations, frees, reallocations, failed, bytes_allocated, live_bytes, peak_live_bytes, freed_by_others,
      freed_for_others;
};

// victims/known_counts.cpp says what each thread does.
constexpr Known kKnown[] = {{"t-malloc", 1000, 500, 0, 0, 500500, 250500, 500500, 0, 0},
                            {"t-calloc", 200, 200, 0, 0, 32000, 0, 32000, 0, 0},
                            {"t-realloc", 1, 1, 99, 0, 80800, 0, 1600, 0, 0},
                            {"t-aligned", 150, 140, 0, 0, 222600, 40960, 222600, 0, 0},
                            {"t-give", 300, 0, 0, 0, 19200, 0, 19200, 300, 0},
                            {"t-take", 0, 300, 0, 0, 0, 0, 0, 0, 300},
                            {"t-edge", 5, 5, 0, 8, 64, 0, 40, 0, 0},
                            {"t-new", 130, 130, 0, 0, 7440, 0, 7440, 0, 0}};

void expect_known(const report::Report& report) {
  expect_whole(report);
  EXPECT_EQ(report.totals.unknown_frees, 0u);
  for (const Known& known : kKnown) {
    SCOPED_TRACE(known.thread);
    const report::ThreadReport thread = thread_named(report, known.thread);
    EXPECT_EQ(thread.allocations, known.allocations);
    EXPECT_EQ(thread.frees, known.frees);
    EXPECT_EQ(thread.reallocations, known.reallocations);
    EXPECT_EQ(thread.failed, known.failed);
    EXPECT_EQ(thread.bytes_allocated, known.bytes_allocated);
    EXPECT_EQ(thread.live_bytes, known.live_bytes);
    EXPECT_EQ(thread.peak_live_bytes, known.peak_live_bytes);
    EXPECT_EQ(thread.freed_by_others, known.freed_by_others);
    EXPECT_EQ(thread.freed_for_others, known.freed_for_others);
  }
}

report::Report report_of_known(Launch launch) {
  launch.command = {victim("known_counts")};
  Recording run(std::move(launch));
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  return run.report();
}

TEST(KnownCounts, AreExactInEveryFieldOfEveryThread) { expect_known(report_of_known({})); }

TEST(KnownCounts, AreExactWithAClockAtEveryEvent) {
  const report::Report report = report_of_known({.environment = {{"HEAPSPY_CLOCK", "event"}}});
  EXPECT_EQ(report.trace.clock, "event");
  expect_known(report);
}

TEST(KnownCounts, AreExactInOneArena) { expect_known(report_of_known({.environment = {{"MALLOC_ARENA_MAX", "1"}}})); }

TEST(KnownCounts, AreExactWithoutRseq) {
  expect_known(report_of_known({.environment = {{"GLIBC_TUNABLES", "glibc.pthread.rseq=0"}}}));
}

TEST(KnownCounts, AreTheSameInEveryOfTenRuns) {
  for (int i = 0; i < 10; i++) expect_known(report_of_known({}));
}

struct Allocator {
  const char* name;
  std::vector<std::string> files;  // of its library, by distribution
};

void PrintTo(const Allocator& allocator, std::ostream* to) { *to << allocator.name; }

class OtherAllocator : public testing::TestWithParam<Allocator> {
 protected:
  void SetUp() override {
    library = installed_library(GetParam().files);
    if (library.empty()) GTEST_SKIP() << GetParam().name << " is not installed";
  }
  std::string library;
};

TEST_P(OtherAllocator, BeneathTheRecorderIsNamedAndCountedExactly) {
  const report::Report report = report_of_known({.preload_beneath = {library}});
  EXPECT_EQ(report.process.allocator_name, GetParam().name);
  expect_known(report);
}

TEST_P(OtherAllocator, IsNotDescribedAsIfItWereGlibc) {
  Recording run({.command = {victim("grows_and_shrinks")}, .preload_beneath = {library}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  expect_whole(report);
  for (const report::ArenaReport& arena : report.arenas) {
    EXPECT_EQ(arena.kind, "other");
    EXPECT_FALSE(arena.system_bytes.has_value());
    EXPECT_FALSE(arena.trimmable_bytes.has_value());
  }
  // What the allocator keeps is not known, so nothing is said about it, nor that it is somebody else's.
  for (const findings::Finding& finding : report.findings)
    for (const char* kind : {"retained", "pinned", "plug", "arena_growth", "secondary_tops", "not_malloc"})
      EXPECT_NE(finding.kind, kind) << finding.text;
}

INSTANTIATE_TEST_SUITE_P(KnownCounts, OtherAllocator,
                         testing::Values(Allocator{"jemalloc", {"libjemalloc.so.2"}},
                                         Allocator{"tcmalloc", {"libtcmalloc_minimal.so.4", "libtcmalloc.so.4"}},
                                         Allocator{"mimalloc", {"libmimalloc.so.2", "libmimalloc.so.3"}}),
                         [](const auto& test) { return std::string(test.param.name); });

// As victims/lib_count_beneath.c writes them.
struct Counters {
  std::uint64_t malloc = 0, calloc = 0, realloc = 0, aligned = 0, free = 0, free_of_null = 0;

  Counters& operator+=(const Counters& more) {
    malloc += more.malloc;
    calloc += more.calloc;
    realloc += more.realloc;
    aligned += more.aligned;
    free += more.free;
    free_of_null += more.free_of_null;
    return *this;
  }
};

Counters counters_of(const Recording& run, std::uint32_t pid) {
  Counters counters;
  std::ifstream file(run.file("counts/" + std::to_string(pid)), std::ios::binary);
  EXPECT_TRUE(file.read(reinterpret_cast<char*>(&counters), sizeof counters)) << "no counters of process " << pid;
  return counters;
}

Counters counters_of(const report::Report& report) {
  return {calls(report, "malloc") + calls(report, "operator_new"),
          calls(report, "calloc"),
          calls(report, "realloc"),
          calls(report, "aligned") + calls(report, "operator_new_aligned"),
          calls(report, "free") + calls(report, "operator_delete"),
          0};  // free(NULL) ends in the hook
}

// What the recorded threads counted of their calls themselves (mode full).
Counters counted_within(const Recording& run, std::uint32_t pid) {
  Counters sum;
  for (const std::string& path : run.traces()) {
    const trace::Reader reader(path);
    if (static_cast<std::uint32_t>(reader.process().pid) != pid) continue;
    EXPECT_FALSE(reader.counters().empty());
    const model::Calls calls = model::counted_figures(reader.counters()).totals.calls;
    sum += {calls.malloc + calls.operator_new,
            calls.calloc,
            calls.realloc,
            calls.aligned + calls.operator_new_aligned,
            calls.free + calls.operator_delete,
            0};
  }
  return sum;
}

// The run must have ended well and left so many traces, whose number is given back. A process that was forked and then executed
// has two traces and one set of counters.
std::size_t expect_same_counts(std::vector<std::string> command, std::optional<std::size_t> traces = 1) {
  Launch launch{.command = std::move(command),
                .preload_beneath = {victim_library("count_beneath")},
                .environment = {{"COUNT_FOLDER", "@/counts"}},
                .in_folder = [] { std::filesystem::create_directory("counts"); }};
  Recording run(std::move(launch));
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  const std::vector<report::Report> reports = run.reports();
  EXPECT_EQ(reports.size(), traces.value_or(reports.size()));
  std::map<std::uint32_t, Counters> recorded;
  for (const report::Report& report : reports) {
    SCOPED_TRACE(report.process.exe);
    expect_whole(report);
    EXPECT_EQ(report.totals.unknown_frees, 0u);
    recorded[report.process.pid] += counters_of(report);
  }
  for (const auto& [pid, counters] : recorded) {
    SCOPED_TRACE("process " + std::to_string(pid));
    const Counters beneath = counters_of(run, pid);
    EXPECT_EQ(counters.malloc, beneath.malloc);
    EXPECT_EQ(counters.calloc, beneath.calloc);
    EXPECT_EQ(counters.realloc, beneath.realloc);
    EXPECT_EQ(counters.aligned, beneath.aligned);
    EXPECT_EQ(counters.free, beneath.free);
    EXPECT_EQ(counters.free_of_null, beneath.free_of_null);
    const Counters within = counted_within(run, pid);
    EXPECT_EQ(within.malloc, beneath.malloc);
    EXPECT_EQ(within.calloc, beneath.calloc);
    EXPECT_EQ(within.realloc, beneath.realloc);
    EXPECT_EQ(within.aligned, beneath.aligned);
    EXPECT_EQ(within.free, beneath.free);
  }
  return reports.size();
}

TEST(CallsThatReachTheAllocator, AreThoseOfTheReportForEveryEntryPoint) {
  expect_same_counts({victim("entry_points")});
  expect_same_counts({victim("known_counts")});
}

TEST(CallsThatReachTheAllocator, AreThoseOfTheReportForCppContainers) { expect_same_counts({victim("containers")}); }

TEST(CallsThatReachTheAllocator, AreThoseOfTheReportForThreadsThatExit) {
  expect_same_counts({victim("thread_exit_frees")});
  expect_same_counts({victim("leaves_blocks")});
}

TEST(CallsThatReachTheAllocator, AreThoseOfTheReportForBlocksThatChangeThreads) {
  expect_same_counts({victim("passes_blocks")});
}

TEST(CallsThatReachTheAllocator, AreThoseOfTheReportForForkedChildren) { expect_same_counts({victim("prefork")}, 5); }

TEST(CallsThatReachTheAllocator, AreThoseOfTheReportForAShellScript) {
  // The shell and three programs; shells differ in what else they fork.
  const std::string program = victim("says");
  const std::size_t traces =
      expect_same_counts({"sh", "-c", program + " a | " + program + " b; echo $(" + program + " c; true) > /dev/null"}, {});
  EXPECT_GE(traces, 4u);
}

TEST(CallsThatReachTheAllocator, AreThoseOfTheReportForPython) {
  // The interpreter itself: what is found in PATH may be a script that starts it.
  Recording where({.command = {"sh", "-c", "python3 -c 'import sys; print(sys.executable, end=\"\")'"}, .recorded = false});
  const std::string python = where.finish().out;
  if (python.empty()) GTEST_SKIP() << "python3 is not installed";
  expect_same_counts({python, "-c",
                      "import json, collections, threading\n"
                      "def work(n):\n"
                      "    for i in range(n): json.loads(json.dumps({str(k): [k] * 20 for k in range(60)}))\n"
                      "threads = [threading.Thread(target=work, args=(30,)) for _ in range(4)]\n"
                      "[t.start() for t in threads]; [t.join() for t in threads]\n"
                      "collections.Counter('abc' * 10000)\n"});
}

TEST(CallsThatReachTheAllocator, AreThoseOfTheReportForACompiler) {
  if (installed("gcc").empty()) GTEST_SKIP() << "gcc is not installed";
  const auto compile = std::filesystem::temp_directory_path() / ("heapspy-process-" + std::to_string(getpid()) + ".c");
  std::ofstream source(compile);
  for (int i = 0; i < 300; i++)
    source << "int f" << i << "(int a, const char* b) { int s = " << i
           << "; while (*b) s = s * 31 + *b++ % (a | 1); return s; }\n";
  source.close();
  // The driver, the compiler proper and the assembler.
  expect_same_counts({"gcc", "-O1", "-c", compile.string(), "-o", "/dev/null"}, 3);
  std::filesystem::remove(compile);
}

TEST(CallsThatReachTheAllocator, AreThoseOfTheReportForAJvm) {
  const std::string java = installed("java");
  if (java.empty()) GTEST_SKIP() << "java is not installed";
  expect_same_counts({std::filesystem::canonical(java).string(), "-Xmx64m", "-version"});
}

}  // namespace
}  // namespace heapspy::test
