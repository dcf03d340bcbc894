// Call stacks as the recorder takes them, where they are hard: held against glibc's backtrace() by the victims themselves,
// which read what was written for each allocation (tests/victims/recorded_stacks.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "analyzer/trace/reader.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

using format::Stacks;
using testing::HasSubstr;

#if !defined(__x86_64__)
#define HEAPSPY_NEEDS_STACKS() GTEST_SKIP() << "call stacks are taken on x86-64"
#else
#define HEAPSPY_NEEDS_STACKS() static_cast<void>(0)
#endif

format::FileHeader header_of(const Recording& run) { return trace::Reader(run.trace()).header(); }

void expect_exact(const std::string& stacks, const std::string& depth, std::vector<std::string> beneath = {}) {
  Recording run({.command = {victim("stacks_exact"), "20000"},
                 .preload_beneath = std::move(beneath),
                 .environment = {{"HEAPSPY_STACKS", stacks}, {"HEAPSPY_DEPTH", depth}}});
  EXPECT_EQ(run.finish().exit_status, 0) << run.finish();
  EXPECT_EQ(header_of(run).stacks_lost, 0u);
}

TEST(Stacks, EqualBacktraceThroughSignalsJumpsExceptionsAndCoroutinesOfEightThreads) {
  HEAPSPY_NEEDS_STACKS();
  expect_exact("dwarf", "500");
}
TEST(Stacks, EqualTheInnerFramesOfBacktraceWhereTheyAreCut) {
  HEAPSPY_NEEDS_STACKS();
  expect_exact("auto", "64");
}
// glibc before 2.35.
TEST(Stacks, AreExactWhereTheLoaderDoesNotSayWhatIsLoaded) {
  HEAPSPY_NEEDS_STACKS();
  expect_exact("dwarf", "500", {victim_library("old_loader")});
}
TEST(Stacks, OfLibunwindEqualBacktraceToo) {
  HEAPSPY_NEEDS_STACKS();
  if (installed_library({"libunwind.so.8"}).empty()) GTEST_SKIP() << "libunwind is not installed";
  expect_exact("libunwind", "500");
}

TEST(Stacks, OfAHandlerThatInterruptsTheRecorderLeaveTheProgramsRight) {
  HEAPSPY_NEEDS_STACKS();
  Recording run({.command = {victim("stacks_interrupted"), "600"}, .preload_beneath = {victim_library("bump")}});
  EXPECT_EQ(run.finish().exit_status, 0) << run.finish();
  // Of a handler that comes while the recorder is busy with the thread nothing is written, but that is counted.
  const std::string& out = run.finish().out;
  EXPECT_LE(std::stoull(out.substr(out.find("lost ") + 5)), run.report().trace.lost_events);
}

TEST(Stacks, OfALibraryAtTheAddressesOfOneThatWasUnloadedAreItsOwn) {
  HEAPSPY_NEEDS_STACKS();
  for (const std::vector<std::string>& beneath : {std::vector<std::string>{}, {victim_library("old_loader")}}) {
    Recording run({.command = {victim("stacks_special"), "plugins", victim_library("plugin_a"), victim_library("plugin_b")},
                   .preload_beneath = beneath});
    EXPECT_EQ(run.finish().exit_status, 0) << run.finish();
    EXPECT_EQ(run.finish().out, "libplugin_a.so\nsame place 1\nlibplugin_b.so\n");
  }
}

TEST(Stacks, OfAForkedChildAreInATableOfItsOwn) {
  HEAPSPY_NEEDS_STACKS();
  Recording run({.command = {victim("stacks_special"), "fork"}});
  EXPECT_EQ(run.finish().out, "parent 1 1 child 1\n") << run.finish();
  EXPECT_EQ(run.traces().size(), 2u);
}

TEST(Stacks, GoThroughGeneratedCodeWithFramePointersAndAreCutWhereItHasNone) {
  HEAPSPY_NEEDS_STACKS();
  Recording run({.command = {victim("stacks_special"), "generated"}});
  std::string expected;
  for (const char* way : {"whole 1 cut 0", "whole 0 cut 2", "whole 0 cut 2"})
    for (int turn = 0; turn < 3; turn++) expected += std::string("in code 1 ") + way + "\n";
  EXPECT_EQ(run.finish().out, expected) << run.finish();
}

TEST(Stacks, ThatFindNoRoomAreCountedAndTheProgramGoesOn) {
  HEAPSPY_NEEDS_STACKS();
  Recording run({.command = {victim("stacks_special"), "many"}, .environment = {{"HEAPSPY_MAX", "120KiB"}}});
  EXPECT_EQ(run.finish().out, "done\n") << run.finish();
  const format::FileHeader header = header_of(run);
  EXPECT_EQ(header.stack_cells, 1016u + 4088);  // the first two segments
  EXPECT_GT(header.stacks_lost, 1000u);
}

TEST(Stacks, AreTakenAsTheHeaderSays) {
  HEAPSPY_NEEDS_STACKS();
  const std::pair<const char*, Stacks> ways[] = {
      {"auto", Stacks::dwarf}, {"dwarf", Stacks::dwarf}, {"fp", Stacks::frame_pointers}, {"none", Stacks::none}};
  for (const auto& [name, stacks] : ways) {
    Recording run({.command = {victim("known_counts")}, .environment = {{"HEAPSPY_STACKS", name}, {"HEAPSPY_DEPTH", "9"}}});
    EXPECT_EQ(run.finish().exit_status, 0) << run.finish();
    expect_whole(run.report());
    const format::FileHeader header = header_of(run);
    EXPECT_EQ(header.stacks, stacks) << name;
    EXPECT_EQ(header.stack_depth, stacks == Stacks::none ? 0u : 9u) << name;
    EXPECT_EQ(header.stack_cells > 0, stacks != Stacks::none) << name;
  }
}

TEST(Stacks, AreCarriedByRingsAndSamples) {
  HEAPSPY_NEEDS_STACKS();
  for (const char* mode : {"ring", "sample"}) {
    Recording run({.command = {victim("known_counts")}, .environment = {{"HEAPSPY_MODE", mode}, {"HEAPSPY_SAMPLE", "1KiB"}}});
    EXPECT_EQ(run.finish().exit_status, 0) << run.finish();
    const format::FileHeader header = header_of(run);
    EXPECT_EQ(header.stacks, Stacks::dwarf) << mode;
    EXPECT_GT(header.stack_cells, 10u) << mode;
  }
}

TEST(Stacks, AreNotTakenWhereEventsAreOnlyCounted) {
  Recording run({.command = {victim("known_counts")}, .environment = {{"HEAPSPY_MODE", "count"}}});
  EXPECT_EQ(run.finish().exit_status, 0) << run.finish();
  EXPECT_EQ(header_of(run).stacks, Stacks::none);
}

}  // namespace
}  // namespace heapspy::test
