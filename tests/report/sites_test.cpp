#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/report/build.h"
#include "analyzer/report/report_json.h"
#include "analyzer/report/report_text.h"
#include "analyzer/report/site_tree.h"
#include "tests/model/world.h"
#include "tests/support/amounts.h"
#include "tests/support/trace_builder.h"

namespace heapspy::test {
namespace {

using namespace report;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr std::uint64_t kBias = 0x7f0000000000;

// Two threads, three sites in a library that is nowhere to be found: `kept` below `outer`, `other` below `outer`, and `outer`.
class SitesReport : public testing::Test {
 protected:
  SitesReport() {
    trace.process(format::ProcessTag::allocator, "glibc").process(format::ProcessTag::glibc_version, "2.36");
    trace.module(1, "/opt/nowhere/libshop.so", "ABCDEFGH", kBias);
    outer = trace.frame(0, kBias + 0x100, 1);
    kept = trace.frame(outer, kBias + 0x200, 1);
    other = trace.frame(outer, kBias + 0x300, 1);
  }
  void record() {
    auto& main = trace.thread("main", 100);
    auto& worker = trace.thread("worker", 101);
    main.stamp(1 * kSecond).stack(kept);
    for (std::uint64_t i = 1; i <= 10; i++) main.malloc(kHeap + i * kPage + 16, 1000);
    main.stack(other).malloc(kHeap + 20 * kPage + 16, 50).free(kHeap + 20 * kPage + 16);
    worker.stamp(2 * kSecond).stack(outer).malloc(kHeap + 1 * kPage + 2064, 500);
    main.stamp(1 * kSecond + 100);
    main.stamp(4 * kSecond).free(kHeap + 10 * kPage + 16);
    trace::Snapshot snapshot;
    snapshot.begin = snapshot.end = 3 * kSecond;
    snapshot.reason = format::SnapshotReason::exit;
    add_memory(snapshot, kHeap, 30, "[heap]");
    snapshot.brk_end = kHeap + 30 * kPage;
    trace.snapshot(snapshot);
  }
  Report build(const BuildOptions& options = {}) {
    TemporaryFile file(trace.bytes());
    return build_report(file.path(), options);
  }
  static const SiteReport* site(const Report& report, std::uint64_t offset) {
    for (const SiteReport& each : report.sites)
      if (!each.frames.empty() && each.frames[0].offset == offset) return &each;
    return nullptr;
  }

  TraceBuilder trace;
  std::uint32_t outer, kept, other;
};

TEST_F(SitesReport, SaysWhatEachSiteAllocatedHoldsAndPins) {
  record();
  const Report report = build();
  ASSERT_THAT(report.sites, SizeIs(3));
  const SiteReport &first = report.sites[0], &second = report.sites[1], *third = site(report, 0x300);
  EXPECT_EQ(first.frames[0].offset, 0x200u);
  ASSERT_THAT(first.frames, SizeIs(2));
  EXPECT_EQ(first.frames[1].offset, 0x100u);
  EXPECT_EQ(first.frames[0].module, "/opt/nowhere/libshop.so");
  EXPECT_EQ(first.frames[0].function, "");
  EXPECT_EQ(first.stack_end, "whole");
  EXPECT_EQ(first.allocations, 10u);
  EXPECT_EQ(first.bytes, 10000u);
  EXPECT_EQ(first.live_bytes, 10000u);
  EXPECT_EQ(first.live_blocks, 10u);
  EXPECT_EQ(first.peak_bytes, 10000u);
  EXPECT_EQ(first.end_live_bytes, 9000u);
  EXPECT_EQ(first.temporary, 0u);
  EXPECT_THAT(first.threads, ElementsAre(1u));
  const std::uint64_t shared = kPage - 1008 - 512, alone = kPage - 1008;
  EXPECT_EQ(first.pinned_bytes, 9 * alone + shared / 2);
  EXPECT_EQ(second.pinned_bytes, shared / 2);
  EXPECT_THAT(second.threads, ElementsAre(2u));
  ASSERT_TRUE(third);
  EXPECT_EQ(third->temporary, 1u);
  EXPECT_EQ(third->live_bytes, 0u);
  ASSERT_THAT(report.modules, SizeIs(1));
  EXPECT_EQ(report.modules[0].state, "missing");
  EXPECT_EQ(report.modules[0].build_id, "4142434445464748");
  const auto json = report_json(report);
  EXPECT_EQ(json["sites"][0]["frames"][0]["function"], nullptr);
  EXPECT_EQ(json["sites"][0]["frames"][0]["offset"], 0x200);
  EXPECT_EQ(json["sites"][0]["live_bytes"], 10000);
  EXPECT_EQ(json["trace"]["stacks"], "dwarf");
}

TEST_F(SitesReport, LeavesOutSmallSitesAndSaysHowMany) {
  record();
  BuildOptions options;
  options.sites.most = 1;
  const Report report = build(options);
  EXPECT_THAT(report.sites, SizeIs(2)) << "most bytes, and most temporary";
  EXPECT_EQ(report.sites_left_out, 1u);
}

TEST_F(SitesReport, CountsOnlyWhatWasAskedFor) {
  record();
  BuildOptions options;
  options.scope.thread = "w*";
  EXPECT_THAT(build(options).sites, SizeIs(1));
  EXPECT_EQ(build(options).sites[0].frames[0].offset, 0x100u);
  EXPECT_EQ(build(options).site_scope, "blocks of thread w*");
  options.scope.thread = "101";
  EXPECT_THAT(build(options).sites, SizeIs(1));
  options.scope.thread = "nobody";
  EXPECT_THROW(build(options), NoSuchThread);
  options.scope = {};
  options.scope.from_s = 1.5;
  EXPECT_THAT(build(options).sites, SizeIs(1));
  options.scope = {};
  options.scope.least_bytes = 1000;
  EXPECT_THAT(build(options).sites, SizeIs(1));
  EXPECT_EQ(build(options).sites[0].frames[0].offset, 0x200u);
  options.scope = {};
  options.sites.module = "libshop";
  EXPECT_THAT(build(options).sites, SizeIs(3));
  options.sites.module = "opt";  // of the folder's name
  EXPECT_THAT(build(options).sites, IsEmpty());
  options.sites.module = "";
  options.sites.pattern = std::regex("anything");  // no function is known
  EXPECT_THAT(build(options).sites, IsEmpty());
}

TEST_F(SitesReport, MakesOneTreeOfAllStacks) {
  record();
  BuildOptions options;
  options.sites.all = true;
  const Report report = build(options);
  const TreeNode down = site_tree(report.sites, TreeOrder::down), up = site_tree(report.sites, TreeOrder::up);
  EXPECT_EQ(down.bytes, 10500u);
  ASSERT_THAT(down.children, SizeIs(1));
  EXPECT_EQ(down.children[0].name, "libshop.so+0x100");
  EXPECT_EQ(down.children[0].bytes, 10500u);
  ASSERT_THAT(down.children[0].children, SizeIs(1)) << "nothing of `other` is live";
  EXPECT_EQ(down.children[0].children[0].bytes, 10000u);
  ASSERT_THAT(up.children, SizeIs(2));
  EXPECT_EQ(up.children[0].name, "libshop.so+0x200");
  EXPECT_EQ(up.children[0].children[0].name, "libshop.so+0x100");
}

TEST_F(SitesReport, IsAPageOfText) {
  record();
  TextOptions text;
  text.by = By::site;
  const Report report = build();
  const auto lines = report_text(report, text);
  EXPECT_THAT(lines, Contains("  1  libshop.so+0x200"));
  EXPECT_THAT(lines,
              Contains("       9.8 KiB live in 10 blocks · 9.8 KiB when most was live · 9.8 KiB by 10 calls · pins 28.4 KiB"));
  EXPECT_THAT(lines, Contains("       from libshop.so+0x100"));
  EXPECT_THAT(lines, Contains("  libshop.so: not found; give --sysroot or --extra-paths"));
  text.by = By::everything;
  EXPECT_THAT(report_text(report, text), Contains(HasSubstr("libshop.so+0x200")));
}

TEST_F(SitesReport, SaysSoWhereNoStacksWereRecorded) {
  TraceBuilder plain;
  plain.thread("main", 100).stamp(5).malloc(kHeap, 8);
  TemporaryFile file(plain.bytes());
  const Report report = build_report(file.path());
  EXPECT_THAT(report.sites, IsEmpty());
  EXPECT_EQ(report.trace.stacks, "none");
  TextOptions text;
  text.by = By::site;
  EXPECT_THAT(report_text(report, text), Contains(HasSubstr("No call stacks were recorded")));
  text.by = By::everything;
  EXPECT_THAT(report_text(report, text), Not(Contains(HasSubstr("Sites"))));
}

// Much comes and goes; of each round one block is never freed.
TEST_F(SitesReport, NamesTheSiteOfALeakUnlessItIsSuppressed) {
  auto& main = trace.thread("main", 100);
  for (std::uint64_t i = 0; i < 400; i++) {
    main.stamp((1 + i) * kSecond / 4).stack(other);
    for (int k = 0; k < 5; k++) main.malloc(kHeap + 64, 100000).free(kHeap + 64);
    main.stack(kept).malloc(kHeap + (2 + i) * 32 * kPage, 100000);
  }
  BuildOptions options;
  const auto leak_in = [&] {
    for (const findings::Finding& finding : build(options).findings)
      if (finding.kind == "leak") return finding.text;
    return std::string();
  };
  EXPECT_THAT(leak_in(),
              HasSubstr("Allocated at libshop.so+0x200 (38.1 MiB in 400 blocks never freed; 4.9 MiB of it from the last"));
  options.sites.suppressions = Suppressions::parse("leak:libother", "test");
  EXPECT_THAT(leak_in(), HasSubstr("libshop.so+0x200"));
  options.sites.suppressions = Suppressions::parse("leak:libshop", "test");
  EXPECT_EQ(leak_in(), "");
}

TEST_F(SitesReport, NamesTheSiteThatGrowsABufferByStepsButNotOneThatDoublesIt) {
  auto& main = trace.thread("main", 100).stamp(kSecond).stack(kept).malloc(kHeap, 16);
  std::uint64_t address = kHeap;
  for (std::uint64_t i = 1; i <= 1000; i++, address += 64 * kPage) main.realloc(address, address + 64 * kPage, i * 4096);
  main.stack(other).malloc(0x600000000000, 16);
  for (std::uint64_t i = 5; i <= 30; i++) main.realloc(0x600000000000, 0x600000000000, std::uint64_t{1} << i);
  const Report report = build();
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_EQ(report.findings[0].kind, "realloc_growth");
  EXPECT_THAT(report.findings[0].text,
              HasSubstr("1 000 reallocs at libshop.so+0x200 had up to 1.9 GiB to carry over for what became 3.9 MiB"));
  EXPECT_THAT(report.findings[0].text, HasSubstr("The block moved for 1.9 GiB of that. Work grows with the square"));
}

TEST_F(SitesReport, SaysOfABufferThatGrewWhereItStoodThatNothingWasCarriedOver) {
  auto& main = trace.thread("main", 100).stamp(kSecond).stack(kept).malloc(kHeap, 16);
  for (std::uint64_t i = 1; i <= 1000; i++) main.realloc(kHeap, kHeap, i * 4096);
  const Report report = build();
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_EQ(report.findings[0].severity, findings::Severity::low);
  EXPECT_THAT(report.findings[0].text, HasSubstr("Here the block could grow where it stood and moved for 0 B only."));
}

}  // namespace
}  // namespace heapspy::test
