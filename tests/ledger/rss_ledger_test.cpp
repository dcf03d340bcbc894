#include "analyzer/ledger/rss_ledger.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/model/world.h"
#include "tests/support/amounts.h"

namespace heapspy::test {
namespace {

using ledger::PartKind;
using ledger::RssLedger;
using model::Moment;

void add(Moment& moment, trace::Mapping m) {
  moment.rss_bytes = moment.rss_bytes.value_or(0) + m.rss_bytes;
  moment.mappings.push_back(std::move(m));
}

trace::Mapping file(std::uint64_t start, std::uint64_t end, std::uint64_t rss, std::string name, std::uint64_t inode) {
  trace::Mapping m = mapping(start, end, rss, std::move(name));
  m.inode = inode;
  m.anonymous_bytes = 0;
  m.write = false;
  return m;
}

model::MappingShare share(std::uint32_t index, model::ResidentParts parts) { return {index, parts, 0}; }

void expect_sum(const RssLedger& ledger) {
  std::uint64_t sum = 0;
  for (const ledger::Part& part : ledger.parts) sum += part.bytes;
  EXPECT_EQ(sum, ledger.total_bytes);
}

TEST(RssLedger, IsEmptyWithoutASnapshot) {
  const RssLedger ledger = ledger::rss_ledger(Moment{});
  EXPECT_TRUE(ledger.parts.empty());
  EXPECT_EQ(ledger.total_bytes, 0u);
}

TEST(RssLedger, PutsEveryMappingIntoItsPart) {
  Moment moment;
  moment.heap.process.in_use_bytes = 0;
  moment.heap.process.resident_bytes = 0;
  add(moment, mapping(0x555500000000, 0x555500100000, 100 * kPage, "[heap]"));
  trace::Mapping code = file(0x7f0000000000, 0x7f0000100000, 50 * kPage, "/usr/lib/libc.so.6", 12);
  code.execute = true;
  add(moment, code);
  trace::Mapping data = file(0x7f0000100000, 0x7f0000102000, 2 * kPage, "/usr/lib/libc.so.6", 12);
  data.write = true;
  add(moment, data);
  add(moment, mapping(0x7f0000102000, 0x7f0000110000, 3 * kPage));  // its bss
  trace::Mapping guard = mapping(0x7f0010000000, 0x7f0010001000, 0);
  guard.read = guard.write = false;
  add(moment, guard);
  add(moment, mapping(0x7f0010001000, 0x7f0010801000, 5 * kPage));  // a thread's stack
  moment.stack_addresses = {0x7f0010800f00};
  trace::Mapping shared = file(0x7f0020000000, 0x7f0020100000, 7 * kPage, "/dev/shm/x", 13);
  shared.shared = shared.write = true;
  add(moment, shared);
  trace::Mapping trace_file = file(0x7f0030000000, 0x7f0030100000, 11 * kPage, "/tmp/heapspy.a.1.2.hspy", 14);
  trace_file.shared = trace_file.write = true;
  add(moment, trace_file);
  trace::Mapping recorder = file(0x7f0040000000, 0x7f0040010000, 13 * kPage, "/opt/lib/libheapspy.so", 15);
  recorder.execute = true;
  add(moment, recorder);
  add(moment, mapping(0x7f0050000000, 0x7f0050100000, 17 * kPage));  // anonymous, nobody's
  moment.recorder_bytes = 4 * kPage;
  add(moment, mapping(0x7ffff0000000, 0x7ffff0021000, 19 * kPage, "[stack]"));
  moment.heap.shares = {share(0, {10 * kPage, 1 * kPage, 20 * kPage, 40 * kPage, 29 * kPage})};

  const RssLedger ledger = ledger::rss_ledger(moment);
  EXPECT_EQ(ledger.total_bytes, 227 * kPage);
  expect_sum(ledger);
  EXPECT_EQ(ledger.bytes(PartKind::malloc_live), 10 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::malloc_overhead), 1 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::malloc_pinned), 20 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::malloc_trimmable), 40 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::malloc_cached), 29 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::files), 55 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::thread_stacks), 24 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::shared_memory), 7 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::heapspy), (11 + 13 + 4) * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::other), 13 * kPage);
  EXPECT_EQ(ledger.parts.size(), ledger::kParts - 5);  // no JVM, and malloc in its parts
  EXPECT_TRUE(ledger.notes.empty());
}

TEST(RssLedger, TheRecordersUninitialisedDataIsHeapspys) {
  Moment moment;
  trace::Mapping code = file(0x7f0040000000, 0x7f0040030000, 13 * kPage, "/opt/lib/libheapspy.so", 15);
  code.execute = true;
  trace::Mapping data = file(0x7f0040030000, 0x7f0040031000, kPage, "/opt/lib/libheapspy.so", 15);
  data.write = true;
  add(moment, code);
  add(moment, data);
  add(moment, mapping(0x7f0040031000, 0x7f00400e0000, 7 * kPage));
  EXPECT_EQ(ledger::rss_ledger(moment).bytes(PartKind::heapspy), 21 * kPage);
}

TEST(RssLedger, DirtyPagesOfTheRecorderAreKnownWhereSomebodyAskedForThem) {
  Moment moment;
  trace::Mapping trace_file = file(0x7f0030000000, 0x7f0030100000, 11 * kPage, "/tmp/heapspy.a.1.2.hspy", 14);
  trace_file.shared = trace_file.write = true;
  add(moment, trace_file);
  add(moment, mapping(0x7f0050000000, 0x7f0050100000, 17 * kPage));  // anonymous
  moment.recorder_bytes = 4 * kPage;
  EXPECT_EQ(ledger::rss_ledger(moment).recorder_dirty_bytes, std::nullopt);
  moment.mappings[0].private_dirty_bytes = 9 * kPage;
  moment.mappings[1].private_dirty_bytes = 17 * kPage;
  EXPECT_EQ(ledger::rss_ledger(moment).recorder_dirty_bytes, (9 + 4) * kPage);
}

TEST(RssLedger, ATraceOfAnyNameIsHeapspys) {
  Moment moment;
  trace::Mapping mapped = file(0x7f0030000000, 0x7f0030100000, 11 * kPage, "/data/odd-name", 14);
  mapped.shared = mapped.write = true;
  add(moment, mapped);
  EXPECT_EQ(ledger::rss_ledger(moment, "/data/odd-name").bytes(PartKind::heapspy), 11 * kPage);
  EXPECT_EQ(ledger::rss_ledger(moment).bytes(PartKind::heapspy), 0u);
}

TEST(RssLedger, PagesTouchedAfterSmapsWasReadDoNotExceedIt) {
  Moment moment;
  add(moment, mapping(0x555500000000, 0x555500100000, 10 * kPage, "[heap]"));
  moment.heap.shares = {share(0, {4 * kPage, 1 * kPage, 3 * kPage, 5 * kPage, 2 * kPage})};  // 15 pages
  const RssLedger ledger = ledger::rss_ledger(moment);
  expect_sum(ledger);
  EXPECT_EQ(ledger.total_bytes, 10 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::malloc_live), 4 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::malloc_trimmable), 2 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::malloc_cached), 0u);
}

TEST(RssLedger, PagesThatNobodyCountedAreOther) {
  Moment moment;
  add(moment, mapping(0x555500000000, 0x555500100000, 10 * kPage, "[heap]"));
  moment.heap.shares = {share(0, {4 * kPage, 0, 0, 0, 0})};
  EXPECT_EQ(ledger::rss_ledger(moment).bytes(PartKind::other), 6 * kPage);
}

TEST(RssLedger, HeapsOfAForkedChildAreMallocsAndNotToldApart) {
  Moment moment;
  moment.heap.process.in_use_bytes = 1;
  moment.heap.process.resident_bytes = 1;
  add(moment, mapping(0x555500000000, 0x555500100000, 10 * kPage, "[heap]"));
  moment.heap.shares = {{0, {kPage, 0, 0, 0, 0}, 9 * kPage}};
  const RssLedger ledger = ledger::rss_ledger(moment);
  EXPECT_EQ(ledger.bytes(PartKind::malloc_live), kPage);
  EXPECT_EQ(ledger.bytes(PartKind::malloc_undivided), 9 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::other), 0u);
  ASSERT_EQ(ledger.notes.size(), 1u);
  EXPECT_NE(ledger.notes[0].find("before fork"), std::string::npos);
}

// name → bytes of a part's pieces, in order.
std::vector<std::pair<std::string, std::uint64_t>> pieces(const RssLedger& ledger, PartKind kind) {
  std::vector<std::pair<std::string, std::uint64_t>> result;
  for (const ledger::Part& part : ledger.parts)
    if (part.kind == kind)
      for (const ledger::Detail& each : part.details) result.emplace_back(each.name, each.bytes);
  return result;
}
using Pieces = std::vector<std::pair<std::string, std::uint64_t>>;

TEST(RssLedger, NamesTheLargestLibrariesAndSumsTheRest) {
  Moment moment;
  for (std::uint64_t i = 0; i < ledger::kDetails + 5; i++)
    add(moment, file(0x7f0000000000 + (i << 24), 0x7f0000100000 + (i << 24), (50 - i) * kPage,
                     "/usr/lib/lib" + std::to_string(i) + ".so", 100 + i));
  const RssLedger ledger = ledger::rss_ledger(moment);
  const Pieces files = pieces(ledger, PartKind::files);
  ASSERT_EQ(files.size(), ledger::kDetails + 1);
  EXPECT_EQ(files[0], Pieces::value_type("lib0.so", 50 * kPage));
  EXPECT_EQ(files.back(), Pieces::value_type("and 5 more", (38 + 37 + 36 + 35 + 34) * kPage));
  EXPECT_TRUE(pieces(ledger::rss_ledger(moment, {}, false), PartKind::files).empty());
}

TEST(RssLedger, TellsThreadCachesFromTopsAndHeapsFromMappingsOfTheirOwn) {
  Moment moment;
  add(moment, mapping(0x555500000000, 0x555500100000, 100 * kPage, "[heap]"));
  model::ResidentParts parts{30 * kPage, 5 * kPage, 20 * kPage, 15 * kPage, 30 * kPage};
  parts.cached_tops = 11 * kPage;
  parts.cached_thread_caches = 12 * kPage;
  parts.mapped_live = 13 * kPage;
  parts.mapped_overhead = 5 * kPage;
  moment.heap.shares = {share(0, parts)};
  const RssLedger ledger = ledger::rss_ledger(moment);
  EXPECT_EQ(pieces(ledger, PartKind::malloc_cached), (Pieces{{"thread caches", 12 * kPage},
                                                             {"tops of secondary arenas", 11 * kPage},
                                                             {"headers and ends of heaps", 7 * kPage}}));
  EXPECT_EQ(pieces(ledger, PartKind::malloc_live),
            (Pieces{{"in heaps", 17 * kPage}, {"in mappings of their own", 13 * kPage}}));
  EXPECT_TRUE(pieces(ledger, PartKind::malloc_overhead).empty());  // one piece says no more than the part
}

TEST(RssLedger, CountsSwapAndHugePagesByWhatAMappingIsFor) {
  Moment moment;
  trace::Mapping heap = mapping(0x555500000000, 0x555500800000, 700 * kPage, "[heap]");
  heap.swap_bytes = 9 * kPage;
  heap.anon_huge_bytes = 512 * kPage;
  add(moment, heap);
  trace::Mapping swapped = mapping(0x7f0050000000, 0x7f0050100000, 0);
  swapped.swap_bytes = 4 * kPage;
  add(moment, swapped);
  moment.heap.shares = {share(0, {400 * kPage, 0, 0, 0, 0})};
  const RssLedger ledger = ledger::rss_ledger(moment);
  ASSERT_EQ(ledger.groups.size(), 2u);
  EXPECT_EQ(ledger.groups[0].name, "malloc");
  EXPECT_EQ(ledger.groups[0].bytes, 700 * kPage);
  EXPECT_EQ(ledger.groups[0].huge_bytes, 512 * kPage);
  EXPECT_EQ(ledger.groups[1].name, "other");
  EXPECT_EQ(ledger.groups[1].bytes, 0u);
  EXPECT_EQ(ledger.swap_bytes, 13 * kPage);
  EXPECT_EQ(ledger.huge_bytes, 512 * kPage);
}

// Threads that never allocated are in no trace: their stacks are told by their shape.
TEST(RssLedger, StacksOfThreadsThatNeverAllocatedAreStacks) {
  Moment moment;
  for (std::uint64_t i = 0; i < 3; i++) {
    trace::Mapping guard = mapping(0x7f0010000000 + i * 0x801000, 0x7f0010001000 + i * 0x801000, 0);
    guard.read = guard.write = false;
    add(moment, guard);
    add(moment, mapping(0x7f0010001000 + i * 0x801000, 0x7f0010801000 + i * 0x801000, 64 * kPage));
  }
  EXPECT_EQ(ledger::rss_ledger(moment).bytes(PartKind::thread_stacks), 3 * 64 * kPage);
  moment.mappings.resize(4);  // two of a size may be anything
  moment.rss_bytes = 2 * 64 * kPage;
  EXPECT_EQ(ledger::rss_ledger(moment).bytes(PartKind::thread_stacks), 0u);
}

// The layout of a JVM of version 17 with -Xmx192m: heap below 4 GiB; metaspace, archive and class space in one row, then
// an arena of glibc without a gap.
class Jvm : public testing::Test {
 protected:
  Moment moment;
  void SetUp() override {
    moment.heap.process.in_use_bytes = 0;
    moment.heap.process.resident_bytes = 0;
    add(moment, mapping(0xf4000000, 0x100000000, 1000 * kPage));
    none(0x7fd9b0021000, 0x7fd9b4000000);
    add(moment, mapping(0x7fd9b7000000, 0x7fd9b71a0000, 100 * kPage));
    none(0x7fd9b71a0000, 0x7fd9b7400000);
    add(moment, mapping(0x7fd9b7400000, 0x7fd9b7a60000, 200 * kPage));
    none(0x7fd9b7a60000, 0x7fd9bb000000);
    trace::Mapping archive = file(0x7fd9bb000000, 0x7fd9bbbc7000, 300 * kPage, "/usr/lib/jvm/lib/server/classes.jsa", 9);
    archive.write = true;
    add(moment, archive);
    none(0x7fd9bbbc7000, 0x7fd9bc000000);
    add(moment, mapping(0x7fd9bc000000, 0x7fd9bc140000, 40 * kPage));
    none(0x7fd9bc140000, 0x7fd9fc000000);
    add(moment, mapping(0x7fd9fc000000, 0x7fd9fc021000, 9 * kPage));
    none(0x7fd9fc021000, 0x7fda00000000);
    moment.heaps = {{0x7fd9fc000000, 0x7fd9fc000030, 0, 0x21000, 0, 0}};
    trace::Mapping code = mapping(0x7fda19400000, 0x7fda19670000, 50 * kPage);
    code.execute = true;
    add(moment, code);
    trace::Mapping library = file(0x7fda35c6e000, 0x7fda35cd3000, 60 * kPage, "/usr/lib/jvm/lib/server/libjvm.so", 10);
    library.execute = true;
    add(moment, library);
  }
  void none(std::uint64_t start, std::uint64_t end) {
    trace::Mapping m = mapping(start, end, 0);
    m.read = m.write = false;
    add(moment, m);
  }
};

TEST_F(Jvm, HasItsHeapMetaspaceAndCodeInPartsOfTheirOwn) {
  const RssLedger ledger = ledger::rss_ledger(moment);
  EXPECT_EQ(ledger.bytes(PartKind::java_heap), 1000 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::java_code), (100 + 200 + 300 + 40 + 50) * kPage);
  EXPECT_EQ(pieces(ledger, PartKind::java_code), (Pieces{{"metaspace and class space", (100 + 200 + 40) * kPage},
                                                         {"class archive", 300 * kPage},
                                                         {"code cache", 50 * kPage}}));
  EXPECT_EQ(ledger.bytes(PartKind::files), 60 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::other), 9 * kPage);  // the arena, of which no share was given
  expect_sum(ledger);
  EXPECT_TRUE(ledger.notes.empty());
}

TEST_F(Jvm, SaysSoWhenTheHeapIsNotRecognised) {
  moment.mappings.erase(moment.mappings.begin());
  add(moment, mapping(0x7fe000000000, 0x7fe200000000, 1000 * kPage));
  moment.rss_bytes = *moment.rss_bytes - 1000 * kPage;
  const RssLedger ledger = ledger::rss_ledger(moment);
  EXPECT_EQ(ledger.bytes(PartKind::java_heap), 0u);
  EXPECT_EQ(ledger.bytes(PartKind::other), 1009 * kPage);
  ASSERT_EQ(ledger.notes.size(), 1u);
  EXPECT_NE(ledger.notes[0].find("Java heap"), std::string::npos);
}

TEST_F(Jvm, AnArchiveBelowTheHeapDoesNotTakeItNorGiveItsObjects) {  // as JDK 25 lays it out
  moment = Moment();
  trace::Mapping classes = file(0xf001000, 0xfd95000, 300 * kPage, "/usr/lib/jvm/lib/server/classes.jsa", 9);
  classes.file_offset = 0x1000;
  add(moment, classes);
  none(0xfd95000, 0x10000000);
  add(moment, mapping(0x10000000, 0x10140000, 40 * kPage));
  none(0x10140000, 0x50000000);
  add(moment, mapping(0x50000000, 0xffe00000, 1000 * kPage));  // a heap right behind the class space
  trace::Mapping objects = file(0xffe00000, 0xfff24000, 7 * kPage, "/usr/lib/jvm/lib/server/classes.jsa", 9);
  objects.file_offset = 0xd95000;
  add(moment, objects);
  add(moment, mapping(0xfff24000, 0x100000000, 5 * kPage));
  add(moment, file(0x7fda35c6e000, 0x7fda35cd3000, 60 * kPage, "/usr/lib/jvm/lib/server/libjvm.so", 10));
  const RssLedger ledger = ledger::rss_ledger(moment);
  EXPECT_EQ(ledger.bytes(PartKind::java_heap), 1012 * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::java_code), 340 * kPage);
  expect_sum(ledger);
}

TEST_F(Jvm, AHeapTooLargeForCompressedPointersIsFoundBySize) {
  moment.mappings.erase(moment.mappings.begin());
  add(moment, mapping(0x7fe000000000, 0x7fe200000000, 1000 * kPage));
  none(0x7fe200000000, 0x7fec00000000);  // 48 GiB in all
  moment.rss_bytes = *moment.rss_bytes - 1000 * kPage;
  const RssLedger ledger = ledger::rss_ledger(moment);
  EXPECT_EQ(ledger.bytes(PartKind::java_heap), 1000 * kPage);
  EXPECT_TRUE(ledger.notes.empty());
}

// As G1 of version 17 lays them out: bitmaps and card tables committed in step with the heap.
TEST_F(Jvm, WhatCollectorsCommitInStepWithTheHeapHasAPartOfItsOwn) {
  const RssLedger before = ledger::rss_ledger(moment);
  trace::Mapping library = moment.mappings.back();
  moment.mappings.pop_back();
  moment.rss_bytes = *moment.rss_bytes - library.rss_bytes;
  add(moment, mapping(0x7fda1fe00000, 0x7fda1ffd4000, 30 * kPage));
  none(0x7fda1ffd4000, 0x7fda2014c000);
  add(moment, mapping(0x7fda2014c000, 0x7fda20190000, 7 * kPage));
  add(moment, mapping(0x7fda21000000, 0x7fda21300000, 11 * kPage));  // a bitmap that is whole: 192 MiB / 64
  add(moment, mapping(0x7fda22000000, 0x7fda22310000, 13 * kPage));  // nothing that a collector has
  none(0x7fda23000000, 0x7fda23004000);                              // the guard pages of a stack …
  add(moment, mapping(0x7fda23004000, 0x7fda23100000, 3 * kPage));
  add(moment, mapping(0x7fda24000000, 0x7fda24400000, 17 * kPage));  // … and a snapshot that the recorder writes
  none(0x7fda24400000, 0x7fda30000000);
  add(moment, library);
  const RssLedger ledger = ledger::rss_ledger(moment);
  EXPECT_EQ(ledger.bytes(PartKind::java_collector), (30 + 7 + 11) * kPage);
  EXPECT_EQ(ledger.bytes(PartKind::other), before.bytes(PartKind::other) + (13 + 3 + 17) * kPage);
  expect_sum(ledger);
}

TEST_F(Jvm, MetaspaceThatABlockOfMallocsIsMergedWithIsMetaspace) {
  trace::Mapping& node = moment.mappings[2];
  node.start -= 0x200000;
  EXPECT_EQ(pieces(ledger::rss_ledger(moment), PartKind::java_code)[0],
            (Pieces::value_type{"metaspace and class space", (100 + 200 + 40) * kPage}));
}

TEST_F(Jvm, ProgramsWithoutOneHaveNoJavaParts) {
  moment.mappings.pop_back();
  moment.rss_bytes = *moment.rss_bytes - 60 * kPage;
  const RssLedger ledger = ledger::rss_ledger(moment);
  for (const ledger::Part& part : ledger.parts)
    EXPECT_TRUE(part.kind < PartKind::java_heap || part.kind > PartKind::java_collector);
  expect_sum(ledger);
}

TEST(RssLedger, SumsExactlyWhateverTheInput) {
  std::mt19937_64 random(3);
  const char* names[] = {"",        "[heap]", "[stack]", "/lib/a.so",       "/dev/shm/b", "/x/libjvm.so",
                         "/t.hspy", "/a.jsa", "[vdso]",  "/memfd:java_heap"};
  for (int round = 0; round < 2000; round++) {
    Moment moment;
    std::uint64_t at = random() % 2 ? 0x10000000 : 0x7f0000000000;
    for (std::uint32_t i = 0; i < 1 + random() % 30; i++) {
      const std::uint64_t pages = 1 + random() % 20000;
      at += random() % 3 ? 0 : (random() % 100) * kPage;
      trace::Mapping m = mapping(at, at + pages * kPage, random() % (pages + 1) * kPage, names[random() % std::size(names)]);
      m.inode = m.name.starts_with('/') ? 1 + random() % 5 : 0;
      m.read = random() % 8;
      m.write = random() % 4;
      m.execute = random() % 4 == 0;
      m.shared = random() % 4 == 0;
      at = m.end;
      if (random() % 3 == 0) moment.stack_addresses.push_back(m.end - 8);
      if (random() % 3 == 0) moment.heaps.push_back({m.start, m.start + 0x30, 0, kPage, 0, 0});
      if (random() % 2) {
        const auto some = [&] { return random() % (pages * kPage); };
        moment.heap.shares.push_back({i, {some(), some(), some(), some(), some()}, random() % 2 ? some() : 0});
      }
      add(moment, std::move(m));
    }
    moment.recorder_bytes = random() % (1 << 24);
    if (random() % 10 == 0) moment.rss_bytes = random() % (1ull << 33);  // a damaged snapshot
    const RssLedger ledger = ledger::rss_ledger(moment);
    EXPECT_EQ(ledger.total_bytes, *moment.rss_bytes);
    expect_sum(ledger);
    for (const ledger::Part& part : ledger.parts) {
      ASSERT_LE(part.bytes, ledger.total_bytes);
      std::uint64_t sum = 0;
      for (const ledger::Detail& each : part.details) sum += each.bytes;
      ASSERT_EQ(part.details.empty() ? part.bytes : sum, part.bytes);
    }
  }
}

}  // namespace
}  // namespace heapspy::test
