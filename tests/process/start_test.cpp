// The first moments of a process, and the library as the linker sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <sstream>

#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

using testing::HasSubstr;

void expect_says(const report::Report& report) {
  const report::ThreadReport thread = thread_named(report, "t-says");
  EXPECT_EQ(thread.allocations, 10u);
  EXPECT_EQ(thread.frees, 9u);
  EXPECT_EQ(thread.live_bytes, 100u);
  expect_whole(report);
}

TEST(Start, CallocFromInsideDlsymIsServed) {
  Recording run({.command = {victim("says"), "hello"}, .preload_beneath = {victim_library("dlsym_allocates")}});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  EXPECT_EQ(outcome.out, "hello\nblocks of dlsym are right\n");
  EXPECT_EQ(outcome.err, "");
  expect_says(run.report());
}

TEST(Start, FreeBeforeInitialisationWithEveryTunableSetIsUnchanged) {
  const char* tunables =
      "glibc.malloc.arena_max=2:glibc.malloc.arena_test=1:glibc.malloc.check=3:glibc.malloc.hugetlb=1:glibc.malloc.mmap_max="
      "100:"
      "glibc.malloc.mmap_threshold=65536:glibc.malloc.mxfast=64:glibc.malloc.perturb=85:glibc.malloc.tcache_count=3:"
      "glibc.malloc.tcache_max=512:glibc.malloc.tcache_unsorted_limit=2:glibc.malloc.top_pad=4096:"
      "glibc.malloc.trim_threshold=65536:glibc.pthread.rseq=0:glibc.pthread.mutex_spin_count=10:"
      "glibc.pthread.stack_cache_size=1048576:glibc.rtld.nns=4:glibc.rtld.optional_static_tls=1024:glibc.elision.enable=0";
  const Compared compared = expect_unchanged({.command = {victim("says"), "hello"},
                                              .preload_beneath = {victim_library("first_calls")},
                                              .environment = {{"GLIBC_TUNABLES", tunables}}});
  EXPECT_EQ(compared.plain.out, "hello\n");
  const report::Report report = compared.recording->report();
  expect_says(report);
  EXPECT_EQ(report.totals.unknown_frees, 1u);  // of the block that came past the recorder
}

TEST(Start, AnEmptyEnvironmentRecordsWithDefaults) {
  Recording run({.command = {victim("says"), "hello"}, .to_traces_folder = false, .without_environment = true});
  EXPECT_EQ(run.finish().out, "hello\n");
  EXPECT_EQ(run.finish().err, "");
  EXPECT_THAT(run.trace(), HasSubstr(run.folder() + "/heapspy.says." + std::to_string(run.pid()) + "."));
  expect_says(run.report());
}

TEST(Start, ANullEnvironRecordsAsTheProcessWasStarted) {
  Recording run({.command = {victim("says"), "hello"}, .preload_beneath = {victim_library("no_environ")}});
  EXPECT_EQ(run.finish().out, "hello\n");
  EXPECT_EQ(run.finish().err, "");
  expect_says(run.report());
}

TEST(Start, FirstCallsThatFailAreUnchangedAndCounted) {
  for (int number = 1; number <= 20; number++) {
    SCOPED_TRACE(number);
    const Compared compared = expect_unchanged({.command = {victim("after_failures")},
                                                .preload_beneath = {victim_library("fails_first")},
                                                .environment = {{"FAIL_FIRST", std::to_string(number)}}});
    EXPECT_EQ(compared.plain.exit_status, 0);
    EXPECT_EQ(compared.plain.out, "given\n");
    const report::Report report = compared.recording->report();
    EXPECT_EQ(report.totals.failed, static_cast<std::uint64_t>(number));
    expect_whole(report);
  }
}

void expect_second(const Recording& run, const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  EXPECT_EQ(outcome.out, "200 mallocs, 200 frees\n");  // operator new calls malloc
  EXPECT_EQ(outcome.err, "");
  const report::Report report = run.report();
  const report::ThreadReport thread = thread_named(report, "t-second");
  EXPECT_EQ(thread.allocations, 200u);
  EXPECT_EQ(thread.frees, 200u);
  EXPECT_EQ(thread.bytes_allocated, 100u * (48 + 56));
  EXPECT_EQ(thread.live_bytes, 0u);
  expect_whole(report);
}

TEST(Start, ASecondInterposerWorksBeforeTheRecorder) {
  Recording run({.command = {victim("asks_second")}, .preload_before = {victim_library("second")}});
  expect_second(run, run.finish());
}

TEST(Start, ASecondInterposerWorksAfterTheRecorder) {
  Recording run({.command = {victim("asks_second")}, .preload_beneath = {victim_library("second")}});
  expect_second(run, run.finish());
}

TEST(Start, AProgramWithItsOwnAllocatorIsUnchanged) {
  const Compared compared = expect_unchanged({.command = {victim("own_allocator")}});
  EXPECT_EQ(compared.plain.out, "1 1 1 1\n100\n");
  const report::Report report = compared.recording->report();
  expect_whole(report);
  EXPECT_EQ(report.totals.unknown_frees, 0u);
}

TEST(Start, TheRecorderPreloadedTwiceRecordsOnce) {
  Recording run({.command = {victim("says"), "hello"}, .preload_beneath = {recorder_library()}});
  EXPECT_EQ(run.finish().out, "hello\n");
  expect_says(run.report());
}

TEST(Start, OpeningTheRecorderLateIsHarmless) {
  Recording run({.command = {victim("opens_late"), recorder_library()},
                 .recorded = false,
                 .environment = {{"HEAPSPY_OUT", "@/traces/"}}});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  EXPECT_EQ(outcome.out, "done\n");
  if (!outcome.err.empty()) {
    EXPECT_TRUE(outcome.err.starts_with("heapspy: ")) << outcome.err;
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1);
  }
}

std::vector<std::string> readelf(const std::string& flags) {
  Recording run({.command = {"readelf", "-W", flags, recorder_library()}, .recorded = false});
  std::istringstream text(run.finish().out);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

#define HEAPSPY_NEEDS_READELF() \
  if (installed("readelf").empty()) GTEST_SKIP() << "readelf is not installed (binutils)"

TEST(Linking, NeedsLibcAndNothingElse) {
  HEAPSPY_NEEDS_READELF();
  std::vector<std::string> needed;
  for (const std::string& line : readelf("-d"))
    if (line.find("(NEEDED)") != std::string::npos) needed.push_back(line.substr(line.find('[')));
  EXPECT_THAT(needed, testing::ElementsAre("[libc.so.6]"));
}

TEST(Linking, ExportsTheInterposedNamesOnly) {
  HEAPSPY_NEEDS_READELF();
  const std::set<std::string> allocation = {"malloc",        "free",           "calloc",
                                            "realloc",       "reallocarray",   "memalign",
                                            "aligned_alloc", "posix_memalign", "valloc",
                                            "pvalloc",       "cfree",          "malloc_usable_size",
                                            "mallopt",       "free_sized",     "free_aligned_sized"};
  const std::set<std::string> process = {"execve",
                                         "execv",
                                         "execvp",
                                         "execvpe",
                                         "fexecve",
                                         "execl",
                                         "execlp",
                                         "execle",
                                         "prctl",
                                         "syscall",
                                         "_exit",
                                         "_Exit",
                                         "quick_exit",
                                         "pthread_create",
                                         "pthread_setname_np",
                                         "dlclose",
                                         "JVM_FindLoadedClass",
                                         "JVM_SetNativeThreadName"};
  std::set<std::string> expected = allocation;
  expected.insert(process.begin(), process.end());
  expected.insert({"heapspy_mark", "heapspy_snapshot", "heapspy_start", "heapspy_stop"});  // heapspy/control.h
  std::size_t operators = 0;
  for (const std::string& line : readelf("--dyn-syms")) {
    if (line.find(" UND ") != std::string::npos || line.find(" DEFAULT ") == std::string::npos) continue;
    if (line.find(" FUNC ") == std::string::npos && line.find(" OBJECT ") == std::string::npos) continue;
    std::istringstream words(line);
    std::string name;
    for (int i = 0; i < 8; i++) words >> name;
    if (name.starts_with("_Zn") || name.starts_with("_Zd"))
      operators++;
    else
      EXPECT_EQ(expected.erase(name), 1u) << name << " is exported";
  }
  EXPECT_EQ(operators, 20u);
  EXPECT_THAT(expected, testing::IsEmpty()) << "not exported";
}

TEST(Linking, StaticTlsStaysUnder64Bytes) {
  HEAPSPY_NEEDS_READELF();
  for (const std::string& line : readelf("-l")) {
    std::istringstream words(line);
    std::string type, offset, virtual_address, physical_address, file_size, memory_size;
    words >> type >> offset >> virtual_address >> physical_address >> file_size >> memory_size;
    if (type != "TLS") continue;
    EXPECT_LT(std::stoul(memory_size, nullptr, 16), 64u);
  }
}

// What it answers itself is in no trace, and must not pass for free memory.
TEST(Front, IsNamedAndWhatItAnswersIsNotTakenForFreeMemory) {
  const std::string front = installed_library({"libc_malloc_debug.so.0"});
  if (front.empty()) GTEST_SKIP() << "this glibc has no libc_malloc_debug";
  Recording run({.command = {victim("grows_and_shrinks")}, .preload_before = {front}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  EXPECT_EQ(report.process.front, "libc_malloc_debug.so.0");
  for (const report::PartReport& part : report.rss.parts) EXPECT_FALSE(part.name.starts_with("malloc: ")) << part.name;
  EXPECT_TRUE(report.findings.empty());
  Recording behind({.command = {victim("grows_and_shrinks")}, .preload_beneath = {front}});
  EXPECT_EQ(behind.finish().exit_status, 0);
  EXPECT_EQ(behind.report().process.front, "");
}

TEST(Front, IsNobodyWhereTheRecorderComesFirst) {
  Recording run({.command = {victim("ends"), "exit"}});
  run.finish();
  EXPECT_EQ(run.report().process.front, "");
}

}  // namespace
}  // namespace heapspy::test
