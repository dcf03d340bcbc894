// Every way into the allocator, its edges, and what goes past the recorder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

struct Expected {
  const char* thread;
  std::uint64_t allocations, frees, reallocations, failed, bytes_allocated;
};

void expect_threads(const report::Report& report, std::initializer_list<Expected> all) {
  expect_whole(report);
  for (const Expected& expected : all) {
    SCOPED_TRACE(expected.thread);
    const report::ThreadReport thread = thread_named(report, expected.thread);
    EXPECT_EQ(thread.allocations, expected.allocations);
    EXPECT_EQ(thread.frees, expected.frees);
    EXPECT_EQ(thread.reallocations, expected.reallocations);
    EXPECT_EQ(thread.failed, expected.failed);
    EXPECT_EQ(thread.bytes_allocated, expected.bytes_allocated);
    EXPECT_EQ(thread.live_bytes, 0u);
  }
}

void expect_entry_points(const report::Report& report, bool with_pvalloc = true) {
  if (with_pvalloc) expect_threads(report, {{"pvalloc", 19, 19, 0, 0, 1900}});
  expect_threads(report, {{"malloc", 11, 11, 0, 0, 1100},
                          {"calloc", 12, 12, 0, 0, 1200},
                          {"realloc", 13, 13, 13, 0, 13 * 150},
                          {"reallocarray", 14, 14, 14, 0, 14 * 150},
                          {"memalign", 15, 15, 0, 0, 1500},
                          {"aligned_alloc", 16, 16, 0, 0, 16 * 128},
                          {"posix_memalign", 17, 17, 0, 0, 1700},
                          {"valloc", 18, 18, 0, 0, 1800},
                          {"usable_size", 20, 20, 0, 0, 2000},
                          {"cfree", 21, 21, 0, 0, 2100},
                          {"free_sized", 22, 22, 0, 0, 2200},
                          {"free_aligned", 23, 23, 0, 0, 23 * 128},
                          {"new", 31, 31, 0, 0, 3100},
                          {"new[]", 32, 32, 0, 0, 3200},
                          {"new nothrow", 33, 33, 0, 0, 3300},
                          {"new[] nothrow", 34, 34, 0, 0, 3400},
                          {"delete sized", 35, 35, 0, 0, 3500},
                          {"delete[] sized", 36, 36, 0, 0, 3600},
                          {"new al", 41, 41, 0, 0, 4100},
                          {"new[] al", 42, 42, 0, 0, 4200},
                          {"new al nothrow", 43, 43, 0, 0, 4300},
                          {"new[] al nothr", 44, 44, 0, 0, 4400},
                          {"delete al sized", 45, 45, 0, 0, 4500},
                          {"delete[] al siz", 46, 46, 0, 0, 4600},
                          {"delete null", 0, 0, 0, 0, 0}});
  EXPECT_EQ(report.totals.unknown_frees, 0u);
}

void expect_calls_by_entry_point(const report::Report& report) {
  EXPECT_EQ(calls(report, "operator_new"), 31u + 32 + 33 + 34 + 35 + 36);
  EXPECT_EQ(calls(report, "operator_new_aligned"), 41u + 42 + 43 + 44 + 45 + 46);
  EXPECT_EQ(calls(report, "operator_delete"), 31u + 32 + 33 + 34 + 35 + 36 + 41 + 42 + 43 + 44 + 45 + 46);
  EXPECT_EQ(calls(report, "aligned"), 15u + 16 + 17 + 18 + 19 + 23);
  EXPECT_EQ(calls(report, "realloc"), 2u * (13 + 14));
}

TEST(EntryPoints, AreEachCountedExactly) {
  Recording run({.command = {victim("entry_points")}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  expect_entry_points(report);
  expect_calls_by_entry_point(report);
}

TEST(EntryPoints, AreEachCountedExactlyOverOtherAllocators) {
  for (const std::vector<std::string>& names : {std::vector<std::string>{"libjemalloc.so.2"},
                                                {"libtcmalloc_minimal.so.4", "libtcmalloc.so.4"},
                                                {"libmimalloc.so.2", "libmimalloc.so.3"}}) {
    const std::string library = installed_library(names);
    if (library.empty()) continue;
    SCOPED_TRACE(library);
    // jemalloc has no pvalloc: a block of glibc's would be given to it.
    const bool with_pvalloc = library.find("jemalloc") == std::string::npos;
    std::vector<std::string> command = {victim("entry_points")};
    if (!with_pvalloc) command.push_back("pvalloc");
    Recording run({.command = command, .preload_beneath = {library}});
    EXPECT_EQ(run.finish().exit_status, 0);
    expect_entry_points(run.report(), with_pvalloc);
  }
}

// As where an installed one is in LD_PRELOAD and `heapspy record` adds its own.
TEST(EntryPoints, OfTwoRecordersDoNotCallEachOtherForEver) {
  std::string copy;
  Recording run({.command = {victim("entry_points")},
                 .preload_beneath = {testing::TempDir() + "heapspy-second-" + std::to_string(::getpid()) + ".so"},
                 .in_folder = [&] {
                   copy = testing::TempDir() + "heapspy-second-" + std::to_string(::getpid()) + ".so";
                   std::filesystem::copy_file(HEAPSPY_RECORDER, copy, std::filesystem::copy_options::overwrite_existing);
                 }});
  EXPECT_EQ(run.finish().exit_status, 0) << run.finish();
  std::filesystem::remove(copy);
  EXPECT_EQ(run.traces().size(), 2u);
}

TEST(EntryPoints, AtTheirEdgesGiveTheAllocatorsOwnAnswer) {
  const Compared compared = expect_unchanged({.command = {victim("edge_cases")}});
  EXPECT_EQ(compared.plain.exit_status, 0);
  const report::Report report = compared.recording->report();
  EXPECT_EQ(report.totals.unknown_frees, 0u);
  constexpr std::uint64_t kLarge = 131071ull + 131072 + 131073 + (1 << 20) + 131070 + (64ull << 20) + 131072 * 2 + 1;
  expect_threads(report, {{"realloc fails", 1, 1, 0, 3, 100},
                          {"realloc 0", 4, 4, 0, 0, 400},
                          {"realloc null", 5, 5, 0, 0, 400},
                          {"calloc over", 0, 0, 0, 3, 0},
                          {"array over", 1, 1, 1, 2, 110},
                          {"bad alignment", 0, 0, 0, 4, 0},
                          {"huge alignment", 0, 0, 0, 3, 0},
                          {"limits", 6, 6, 0, 2, 0},
                          {"large", 8, 8, 8, 0, 2 * kLarge}});
}

TEST(EntryPoints, NewThrowsAndRetriesAsItWould) {
  const Compared compared = expect_unchanged({.command = {victim("new_throws")}});
  EXPECT_EQ(compared.plain.out, "thrown 40\nnull 30\nhandled 2, thrown 1\n");
  const report::Report report = compared.recording->report();
  EXPECT_EQ(report.totals.unknown_frees, 0u);
  // An exception is a malloc too (its size is the C++ runtime's business).
  expect_whole(report);
  const report::ThreadReport throws = thread_named(report, "t-throws");
  EXPECT_EQ(throws.failed, 40u);
  EXPECT_EQ(throws.allocations, 50u);
  EXPECT_EQ(throws.frees, 50u);
  EXPECT_EQ(throws.live_bytes, 0u);
  const report::ThreadReport null = thread_named(report, "t-null");
  EXPECT_EQ(null.failed, 30u);
  EXPECT_EQ(null.allocations, 40u);  // the nothrow forms throw and catch inside
  EXPECT_EQ(null.frees, 40u);
  // The ballast, the block of the second try, the exception, the last block.
  const report::ThreadReport retries = thread_named(report, "t-retries");
  EXPECT_EQ(retries.failed, 2u);
  EXPECT_EQ(retries.allocations, 4u);
  EXPECT_EQ(retries.frees, 4u);
  EXPECT_EQ(retries.live_bytes, 0u);
}

TEST(EntryPoints, OfCppThatTheProgramReplacesStayReplaced) {
  const Compared compared = expect_unchanged({.command = {victim("replaces_new")}});
  EXPECT_EQ(compared.plain.out, "60 60\n");
  const report::Report report = compared.recording->report();
  expect_threads(report, {{"t-replaced", 60, 60, 0, 0, 60 * 66}});
  EXPECT_EQ(report.totals.unknown_frees, 0u);
}

TEST(EntryPoints, PastTheRecorderByDeepBindingAreSeenFromOneSideOnly) {
  const Compared compared = expect_unchanged({.command = {victim("deep_bind"), victim_library("deep")}});
  EXPECT_EQ(compared.plain.exit_status, 0);
  const report::Report report = compared.recording->report();
  expect_whole(report);
  const report::ThreadReport thread = thread_named(report, "t-deep");
  EXPECT_EQ(thread.allocations, 200u);
  EXPECT_EQ(thread.frees, 200u);
  EXPECT_EQ(report.totals.unknown_frees, 100u);
}

}  // namespace
}  // namespace heapspy::test
