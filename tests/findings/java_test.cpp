// Verdicts about a JVM's memory outside of its heap, on the shape each is made for and on its look-alikes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/findings/verdicts.h"
#include "tests/support/amounts.h"

namespace heapspy::findings {
namespace {

using test::kMiB;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Facts jvm(std::uint64_t rss) {
  Facts facts;
  facts.moment = "at the RSS peak (2.0 s)";
  facts.pid = 77;
  facts.glibc = true;
  facts.rss_bytes = rss;
  facts.end_s = 4.0;
  facts.java.emplace();
  facts.java->cpus = 2;
  return facts;
}

JavaUseFacts use(std::uint64_t bytes) {
  JavaUseFacts use;
  use.live_blocks = 400;
  use.live_bytes = bytes;
  use.places = {{"shop.Catalogue.load:17", bytes}};
  return use;
}

// Of a library that Java calls, with so much left of each eighth of the run.
SiteFacts leaking(std::uint64_t each, const std::string& library) {
  SiteFacts site;
  site.where = "copy_of at libshop.so+0x1100";
  site.end_live_bytes = 8 * each;
  site.end_live_blocks = 8000;
  site.survivors = std::vector<std::uint64_t>(8, each);
  site.jni_library = library;
  site.java_caller = "shop.Cart.add:12";
  return site;
}

const Finding* found(const std::vector<Finding>& findings, const std::string& kind) {
  const auto at = std::find_if(findings.begin(), findings.end(), [&](const Finding& each) { return each.kind == kind; });
  return at == findings.end() ? nullptr : &*at;
}

TEST(JavaVerdicts, StreamsThatNobodyHasEndedAreNamedWithTheCodeThatOpenedThem) {
  Facts facts = jvm(400 * kMiB);
  facts.java->zip_streams = use(120 * kMiB);
  facts.java->zip_streams.ended_blocks = 1000;
  facts.java->zip_streams.ended_by_others = 600;
  facts.java->zip_streams.ended_by_it = 590;
  facts.java->zip_streams.ended_by = "Common-Cleaner";
  const auto findings = judge(facts);
  const Finding* zip = found(findings, "zip_streams");
  ASSERT_TRUE(zip);
  EXPECT_EQ(zip->bytes, 120 * kMiB);
  EXPECT_EQ(zip->severity, Severity::high);
  EXPECT_EQ(zip->fix, std::nullopt);  // no saving was predicted
  EXPECT_THAT(zip->text, HasSubstr("400 live blocks"));
  EXPECT_THAT(zip->text, HasSubstr("Asked for by shop.Catalogue.load:17 (120.0 MiB)."));
  EXPECT_THAT(zip->text,
              HasSubstr("Of 1 000 such blocks that ended in the whole run, 600 were freed by another thread than had "
                        "asked, 590 of them by Common-Cleaner: after a collection had found that nobody else would."));
  EXPECT_THAT(*zip->to_try, HasSubstr("-XX:TrimNativeHeapInterval=5000 (JDK 17.0.9, 21.0.1, 22 and later)"));
  facts.java->zip_streams.ended_by = "closer-1";
  EXPECT_THAT(found(judge(facts), "zip_streams")->text, HasSubstr("590 of them by closer-1."));
  facts.java->zip_streams.ended_by_it = 40;  // one of many
  EXPECT_THAT(found(judge(facts), "zip_streams")->text, HasSubstr("600 were freed by another thread than had asked."));
}

TEST(JavaVerdicts, EstimatesAreSaidToBeEstimates) {
  Facts facts = jvm(400 * kMiB);
  facts.estimated = true;
  facts.java->zip_streams = use(120 * kMiB);
  facts.java->zip_streams.ended_by_others = 600;
  EXPECT_THAT(found(judge(facts), "zip_streams")->text, HasSubstr("estimated from samples"));
}

// What was asked for and never touched is not in RAM.
TEST(JavaVerdicts, OfRssNoMoreIsSaidThanIsLive) {
  Facts facts = jvm(400 * kMiB);
  facts.parts = {{"malloc: live", PartKind::malloc, 90 * kMiB}};
  facts.java->zip_streams = use(120 * kMiB);
  EXPECT_EQ(found(judge(facts), "zip_streams")->bytes, 90 * kMiB);
  EXPECT_THAT(found(judge(facts), "zip_streams")->text, HasSubstr("400 live blocks (120.0 MiB asked for)"));
}

TEST(JavaVerdicts, AFewStreamsAreNoneAndSoAreThoseOfNoJvm) {
  Facts facts = jvm(400 * kMiB);
  facts.java->zip_streams = use(5 * kMiB);  // little of it
  EXPECT_FALSE(found(judge(facts), "zip_streams"));
  facts.rss_bytes = 20 * kMiB;
  facts.java->zip_streams = use(3 * kMiB);  // little
  EXPECT_FALSE(found(judge(facts), "zip_streams"));
  facts.java.reset();
  for (const Finding& each : judge(facts)) ADD_FAILURE() << each.kind;
}

TEST(JavaVerdicts, DirectBuffersAreOfferedTheirLimit) {
  Facts facts = jvm(400 * kMiB);
  facts.java->direct_buffers = use(100 * kMiB);
  const auto findings = judge(facts);
  const Finding* direct = found(findings, "direct_buffers");
  ASSERT_TRUE(direct);
  EXPECT_EQ(direct->bytes, 100 * kMiB);
  EXPECT_THAT(direct->text, HasSubstr("Their limit is not set, so it is that of the Java heap (-Xmx)"));
  EXPECT_THAT(*direct->to_try, HasSubstr("-XX:MaxDirectMemorySize=SIZE"));
  facts.java->max_direct_setting = "-XX:MaxDirectMemorySize=64m";
  EXPECT_THAT(found(judge(facts), "direct_buffers")->text, HasSubstr("Their limit is -XX:MaxDirectMemorySize=64m."));
  facts.java->direct_buffers = use(30 * kMiB);  // what networking takes anywhere
  EXPECT_FALSE(found(judge(facts), "direct_buffers"));
}

TEST(JavaVerdicts, CompilersAreNamedWhereTheyHoldMuchAtTheMoment) {
  Facts facts = jvm(400 * kMiB);
  facts.java->compiler_threads = 3;
  facts.java->compiler_live_bytes = 60 * kMiB;
  const auto findings = judge(facts);
  const Finding* compilers = found(findings, "compiler_arenas");
  ASSERT_TRUE(compilers);
  EXPECT_EQ(compilers->bytes, 60 * kMiB);
  EXPECT_THAT(compilers->text, HasSubstr("3 compiler threads"));
  facts.java->compiler_live_bytes = 15 * kMiB;  // as at any start
  EXPECT_FALSE(found(judge(facts), "compiler_arenas"));
}

TEST(JavaVerdicts, MoreGcThreadsThanCpusAreSaid) {
  Facts facts = jvm(400 * kMiB);
  facts.java->collector_threads = 16;
  facts.java->collector_live_bytes = 3 * kMiB;
  facts.java->collector_threads_setting = "-XX:ParallelGCThreads=16";
  const auto findings = judge(facts);
  const Finding* threads = found(findings, "collector_threads");
  ASSERT_TRUE(threads);
  EXPECT_THAT(threads->text, HasSubstr("16 GC threads on 2 CPUs"));
  EXPECT_THAT(threads->text, HasSubstr("-XX:ParallelGCThreads=16"));
  EXPECT_THAT(*threads->to_try, HasSubstr("-XX:ParallelGCThreads=2"));
  EXPECT_THAT(threads->text, Not(HasSubstr("cgroup")));
  facts.java->cpu_quota = 1.5;
  EXPECT_THAT(found(judge(facts), "collector_threads")->text,
              HasSubstr("16 GC threads on 2 CPUs (its cgroup grants the time of 1.5)"));
  facts.java->collector_threads = 5;  // ZGC's two generations
  EXPECT_FALSE(found(judge(facts), "collector_threads"));
  facts.java->collector_threads = 16;
  facts.java->cpus.reset();
  EXPECT_FALSE(found(judge(facts), "collector_threads"));
}

TEST(JavaVerdicts, ALeakOfANativeLibraryIsALeakWithItsName) {
  Facts facts = jvm(100 * kMiB);
  facts.timeline = {{0, 0}, {1, 60 * kMiB}, {2, 20 * kMiB}, {4, 40 * kMiB}};
  facts.bytes_allocated = 400 * kMiB;
  facts.end_live_bytes = 40 * kMiB;
  facts.sites = {leaking(kMiB, "libshop.so")};
  const auto findings = judge(facts);
  const Finding* leak = found(findings, "jni_leak");
  ASSERT_TRUE(leak);
  EXPECT_EQ(leak->bytes, 5 * kMiB);  // no more than leak counts
  EXPECT_THAT(leak->part_of, ElementsAre("leak"));
  EXPECT_THAT(leak->text, HasSubstr("Blocks that libshop.so has allocated"));
  EXPECT_THAT(leak->text, HasSubstr("copy_of at libshop.so+0x1100, called by shop.Cart.add:12 (8.0 MiB in 8 000 blocks never"));
  EXPECT_EQ(leak->to_try, std::nullopt);
  ASSERT_TRUE(found(findings, "leak"));
}

TEST(JavaVerdicts, RetainedMemoryOfAJvmIsOfferedItsOwnTrim) {
  Facts facts = jvm(100 * kMiB);
  ArenaFacts arena;
  arena.main = arena.glibc_heap = true;
  arena.label = "main";
  arena.live_blocks = 1000;
  arena.resident_bytes = 60 * kMiB;
  arena.trimmable_bytes = 50 * kMiB;
  facts.arenas = {arena};
  const auto findings = judge(facts);
  EXPECT_THAT(found(findings, "retained")->to_try.value_or(""), HasSubstr("-XX:TrimNativeHeapInterval=5000"));
  facts.java.reset();
  EXPECT_THAT(found(judge(facts), "retained")->to_try.value_or(""), Not(HasSubstr("-XX:")));
}

TEST(JavaVerdicts, WhatTheJvmItselfKeepsIsNoLeakOfALibrary) {
  Facts facts = jvm(100 * kMiB);
  facts.sites = {leaking(kMiB, "")};
  EXPECT_FALSE(found(judge(facts), "jni_leak"));
  facts.sites = {leaking(kMiB, "libshop.so")};
  facts.sites[0].survivors = {kMiB, 8 * kMiB, 0, 0, 0, 0, 0, 0};  // filled once
  EXPECT_FALSE(found(judge(facts), "jni_leak"));
  facts.sites[0] = leaking(kMiB, "libshop.so");
  facts.sites[0].suppressed = true;
  EXPECT_FALSE(found(judge(facts), "jni_leak"));
}

}  // namespace
}  // namespace heapspy::findings
