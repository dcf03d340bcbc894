// Call stacks over several processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "analyzer/report/merged_build.h"
#include "analyzer/report/merged_json.h"
#include "analyzer/report/merged_text.h"
#include "analyzer/report/report_html.h"
#include "analyzer/report/site_tree.h"
#include "tests/support/amounts.h"
#include "tests/support/trace_builder.h"

namespace heapspy::test {
namespace {

using namespace report;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class FamilyOfSites : public testing::Test {
 protected:
  // A process that keeps `blocks` of `bytes` from one place of the library and one block of 7 from below it.
  void add(std::uint32_t pid, std::uint64_t bias, std::uint64_t blocks, std::uint64_t bytes,
           const char* build_id = "ABCDEFGH") {
    TraceBuilder trace;
    trace.header().pid = pid;
    trace.header().start_realtime_ns = 100 * kSecond * pid;
    trace.process(format::ProcessTag::allocator, "glibc");
    trace.module(3, "/opt/nowhere/libshop.so", build_id, bias);
    const std::uint32_t outer = trace.frame(0, bias + 0x100, 3), inner = trace.frame(outer, bias + 0x200, 3);
    auto& main = trace.thread("main", pid).stamp(kSecond).stack(inner);
    for (std::uint64_t i = 0; i < blocks; i++) main.malloc(kHeap + 4096 * i, bytes);
    main.malloc(kHeap - 4096, 50).free(kHeap - 4096);
    main.stack(outer).malloc(kHeap - 64, 7);
    files_.emplace_back(trace.bytes());
    paths.push_back(files_.back().path());
  }
  MergedReport merged() { return build_merged(paths, "all", options); }

  std::vector<std::string> paths;
  MergeOptions options;

 private:
  std::deque<TemporaryFile> files_;
};

TEST_F(FamilyOfSites, AreSummedWhereverTheirLibraryWasLoaded) {
  add(1, 0x7f0000000000, 3, 1000);
  add(2, 0x7f1234560000, 2, 500);
  const MergedReport report = merged();
  ASSERT_THAT(report.stacks.sites, SizeIs(2));
  const SiteReport& first = report.stacks.sites[0];
  ASSERT_THAT(first.frames, SizeIs(2));
  EXPECT_EQ(first.frames[0].offset, 0x200u);
  EXPECT_EQ(first.frames[1].offset, 0x100u);
  EXPECT_EQ(first.processes, 2u);
  EXPECT_EQ(first.allocations, 7u);
  EXPECT_EQ(first.bytes, 4100u);
  EXPECT_EQ(first.live_bytes, 4000u);
  EXPECT_EQ(first.live_blocks, 5u);
  EXPECT_EQ(first.end_live_bytes, 4000u);
  EXPECT_EQ(first.temporary, 2u);
  EXPECT_EQ(first.ended_blocks, 2u);
  EXPECT_THAT(first.threads, IsEmpty());
  EXPECT_EQ(report.stacks.sites[1].live_bytes, 14u);
}

TEST_F(FamilyOfSites, AreNotThoseOfAnotherBuildAtTheSamePlace) {
  add(1, 0x7f0000000000, 3, 1000);
  add(2, 0x7f0000000000, 2, 500, "another1");
  EXPECT_THAT(merged().stacks.sites, SizeIs(4));
}

TEST_F(FamilyOfSites, SumToTheTotals) {
  for (std::uint32_t pid = 1; pid <= 60; pid++) add(pid, 0x7f0000000000 + 0x1000 * pid, pid % 7, 100 + pid);
  const MergedReport report = merged();
  ASSERT_THAT(report.stacks.sites, SizeIs(2));
  EXPECT_EQ(*report.stacks.sites[0].live_bytes + *report.stacks.sites[1].live_bytes, report.totals.live_bytes);
  EXPECT_EQ(report.stacks.sites[0].bytes + report.stacks.sites[1].bytes, report.totals.bytes_allocated);
  EXPECT_EQ(report.stacks.sites[0].processes, 60u);
}

// Process 2 begins 100 s after process 1, and each allocates in its first seconds.
TEST_F(FamilyOfSites, CountOnlyBlocksOfTheThreadSizeAndTimeAskedFor) {
  add(1, 0x7f0000000000, 3, 1000);
  add(2, 0x7f1234560000, 2, 500);
  options.scope.to_s = 50;
  MergedReport early = merged();
  EXPECT_EQ(early.stacks.sites[0].live_bytes, 3000u);
  EXPECT_EQ(early.stacks.sites[0].processes, 1u);
  EXPECT_EQ(early.stacks.site_scope, "blocks, allocated to 50.0 s");
  EXPECT_EQ(early.totals.allocations, 9u);  // of everything

  options.scope = {};
  options.scope.from_s = 50;
  EXPECT_EQ(merged().stacks.sites[0].live_bytes, 1000u);

  options.scope = {};
  options.scope.most_bytes = 500;
  options.scope.least_bytes = 51;
  ASSERT_THAT(merged().stacks.sites, SizeIs(1));
  EXPECT_EQ(merged().stacks.sites[0].bytes, 1000u);

  options.scope = {};
  options.scope.thread = "2";  // the kernel's id, of one of the processes
  EXPECT_EQ(merged().stacks.sites[0].live_bytes, 1000u);
  options.scope.thread = "m*";
  EXPECT_EQ(merged().stacks.sites[0].live_bytes, 4000u);
  options.scope.thread = "nobody";
  EXPECT_THROW(merged(), NoSuchThread);
}

TEST_F(FamilyOfSites, AreInTextAndJsonAndOnThePage) {
  add(1, 0x7f0000000000, 3, 1000);
  add(2, 0x7f1234560000, 2, 500);
  options.sites.all = true;
  const MergedReport report = merged();
  TextOptions text;
  text.by = By::site;
  EXPECT_THAT(merged_text(report, text), Contains("Sites at the RSS peak of each process (2 of 2)"));
  EXPECT_THAT(merged_text(report, text), Contains("  1  libshop.so+0x200"));
  EXPECT_THAT(merged_text(report, text), Contains(HasSubstr("in 2 processes")));
  text.tree = TreeOrder::down;
  EXPECT_THAT(merged_text(report, text), Contains(HasSubstr("libshop.so+0x100")));
  const auto json = merged_json(report);
  ASSERT_EQ(json["sites"].size(), 2u);
  EXPECT_EQ(json["sites"][0]["live_bytes"], 4000);
  EXPECT_EQ(json["sites"][0]["processes"], 2);
  EXPECT_TRUE(json["sites"][0]["threads"].is_null());
  EXPECT_THAT(merged_html(report), HasSubstr("<data value=\"4000\">3.9 KiB</data>"));
}

TEST_F(FamilyOfSites, AreChosenAndSuppressedAsThoseOfOneProcess) {
  add(1, 0x7f0000000000, 3, 1000);
  add(2, 0x7f1234560000, 2, 500);
  options.sites.suppressions = Suppressions::parse("leak:libshop", "test");
  EXPECT_EQ(merged().stacks.suppressed_bytes, 4014u);
  EXPECT_TRUE(merged().stacks.sites[0].suppressed);
  options.sites.suppressions = {};
  options.sites.module = "libother";
  EXPECT_THAT(merged().stacks.sites, IsEmpty());
  options.sites.module = "libshop";
  EXPECT_THAT(merged().stacks.sites, SizeIs(2));
}

}  // namespace
}  // namespace heapspy::test
