#include "analyzer/model/thread_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/model/allocated_bytes.h"
#include "tests/model/world.h"

namespace heapspy::test {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr std::uint64_t kBase = 0x7f0000000000;

struct Expected {
  std::uint64_t allocations, frees, reallocations, bytes_allocated, live_bytes, peak_live_bytes, freed_by_others,
      freed_for_others, failed;
};

void expect(const model::ThreadFigures& f, const Expected& e) {
  EXPECT_EQ(f.allocations, e.allocations) << f.name;
  EXPECT_EQ(f.frees, e.frees) << f.name;
  EXPECT_EQ(f.reallocations, e.reallocations) << f.name;
  EXPECT_EQ(f.bytes_allocated, e.bytes_allocated) << f.name;
  EXPECT_EQ(f.live_bytes, e.live_bytes) << f.name;
  EXPECT_EQ(f.peak_live_bytes, e.peak_live_bytes) << f.name;
  EXPECT_EQ(f.freed_by_others, e.freed_by_others) << f.name;
  EXPECT_EQ(f.freed_for_others, e.freed_for_others) << f.name;
  EXPECT_EQ(f.failed, e.failed) << f.name;
}

// The shapes of a program whose allocations are known exactly: each thread does one thing.
TEST(ThreadStats, GivesTheExactFiguresOfAKnownProgram) {
  model::ThreadStats stats;
  World world({&stats});
  std::uint64_t next = kBase;
  const auto fresh = [&next] { return next += 0x10000; };

  world.start(1, 101, "t-malloc");  // 1 … 1000 bytes, the odd sizes freed
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t size = 1; size <= 1000; size++) world.allocate(1, blocks.emplace_back(fresh()), size);
  for (std::size_t i = 0; i < blocks.size(); i += 2) world.free(1, blocks[i]);
  world.end(1);

  world.start(2, 102, "t-realloc");
  const std::uint64_t grown = fresh();
  world.allocate(2, grown, 16);
  for (std::uint64_t k = 2; k <= 100; k++) world.reallocate(2, grown, grown, 16 * k);
  world.free(2, grown);

  world.start(3, 103, "t-give");
  blocks.clear();
  for (int i = 0; i < 300; i++) world.allocate(3, blocks.emplace_back(fresh()), 64);
  world.end(3);
  world.start(4, 104, "t-take");
  for (const std::uint64_t address : blocks) world.free(4, address);

  world.start(5, 105, "t-edge");
  for (int i = 0; i < 5; i++) world.fail(5, Origin::malloc, 1ull << 63);
  for (int i = 0; i < 2; i++) world.fail(5, Origin::calloc, 1ull << 63);
  world.allocate(5, grown, 40);
  world.fail(5, Origin::realloc, 1ull << 63);
  world.free(5, grown);
  for (int i = 0; i < 3; i++) {
    world.allocate(5, grown, 0);
    world.free(5, grown);
  }
  world.allocate(5, grown, 24, Origin::realloc);
  world.realloc_to_nothing(5, grown);

  const std::vector<model::ThreadFigures> figures = stats.figures();
  ASSERT_EQ(figures.size(), 5u);
  expect(figures[0], {1000, 500, 0, 500500, 250500, 500500, 0, 0, 0});
  expect(figures[1], {1, 1, 99, 80800, 0, 1600, 0, 0, 0});
  expect(figures[2], {300, 0, 0, 19200, 0, 19200, 300, 0, 0});
  expect(figures[3], {0, 300, 0, 0, 0, 0, 0, 300, 0});
  expect(figures[4], {5, 5, 0, 64, 0, 40, 0, 0, 8});
  EXPECT_EQ(figures[0].name, "t-malloc");
  EXPECT_EQ(figures[0].tid, 101u);
  EXPECT_EQ(figures[0].start, Tick{0});
  EXPECT_EQ(figures[0].end, Tick{1501});
  EXPECT_EQ(figures[1].end, std::nullopt);
  EXPECT_EQ(figures[4].temporary, 4u);  // the three of 0 bytes and the one of 24
}

TEST(ThreadStats, SizeRowsSumToTheThreadsCountsAndBytes) {
  model::ThreadStats stats;
  World world({&stats});
  world.allocate(1, 0x1000, 0);
  world.allocate(1, 0x2000, 1);
  world.allocate(1, 0x3000, 15);
  world.allocate(1, 0x4000, 16);
  world.allocate(1, 0x5000, 31);
  world.reallocate(1, 0x5000, 0x5000, 1000);
  const model::ThreadFigures f = stats.figures().at(0);
  ASSERT_EQ(f.sizes.size(), 5u);
  EXPECT_EQ(f.sizes[0].from, 0u);
  EXPECT_EQ(f.sizes[0].to, 1u);
  EXPECT_EQ(f.sizes[1].from, 1u);
  EXPECT_EQ(f.sizes[2].from, 8u);
  EXPECT_EQ(f.sizes[2].bytes, 15u);
  EXPECT_EQ(f.sizes[3].from, 16u);
  EXPECT_EQ(f.sizes[3].to, 32u);
  EXPECT_EQ(f.sizes[3].allocations, 2u);
  EXPECT_EQ(f.sizes[4].from, 512u);
  EXPECT_EQ(f.sizes[4].allocations, 0u);  // a realloc makes no new block
  std::uint64_t allocations = 0, bytes = 0;
  for (const model::SizeRow& row : f.sizes) {
    allocations += row.allocations;
    bytes += row.bytes;
  }
  EXPECT_EQ(allocations, f.allocations);
  EXPECT_EQ(bytes, f.bytes_allocated);
}

TEST(ThreadStats, ReallocByAnotherThreadMovesTheBlockToIt) {
  model::ThreadStats stats;
  World world({&stats});
  world.allocate(1, 0x1000, 100);
  world.reallocate(2, 0x1000, 0x2000, 300);
  world.free(1, 0x2000);
  const auto figures = stats.figures();
  expect(figures[0], {1, 1, 0, 100, 0, 100, 0, 1, 0});
  expect(figures[1], {0, 0, 1, 300, 0, 300, 1, 0, 0});
}

TEST(ThreadStats, ReattributionMovesAFreeToTheThreadThatMadeIt) {
  model::ThreadStats stats;
  World world({&stats});
  const Block block = world.allocate(1, 0x1000, 100);
  world.free(2, 0x1000);
  stats.reattributed(block, ThreadId(2), ThreadId(3));
  auto figures = stats.figures();
  EXPECT_EQ(figures[0].freed_by_others, 1u);
  EXPECT_EQ(figures[1].frees, 0u);
  EXPECT_EQ(figures[1].freed_for_others, 0u);
  EXPECT_EQ(figures[2].frees, 1u);
  EXPECT_EQ(figures[2].freed_for_others, 1u);
  stats.reattributed(block, ThreadId(3), ThreadId(1));
  figures = stats.figures();
  EXPECT_EQ(figures[0].freed_by_others, 0u);
  EXPECT_EQ(figures[0].frees, 1u);
  EXPECT_EQ(figures[0].freed_for_others, 0u);
}

TEST(ThreadStats, NamesComeFromTheLastOneWhoKnew) {
  model::ThreadStats stats;
  World world({&stats});
  world.start(1, 100, "java");
  stats.thread_named(ThreadId(1), "a-name-longer-than-the-kernel-keeps", 5);
  world.start(2, 200, "worker");
  world.end(2);
  world.start(3, 200, "");  // the kernel used the tid again
  trace::Snapshot snapshot;
  snapshot.thread_names = {{100, "a-name-longer-t"}, {200, "late"}};
  world.snapshot(snapshot);
  const auto figures = stats.figures();
  EXPECT_EQ(figures[0].name, "a-name-longer-than-the-kernel-keeps");
  EXPECT_EQ(figures[1].name, "worker");
  EXPECT_EQ(figures[2].name, "late");
}

// A JVM's first thread is "java" to the kernel, however it is called.
TEST(ThreadStats, WhatTheKernelAlwaysSaidIsNoNewName) {
  model::ThreadStats stats;
  World world({&stats});
  world.start(1, 100, "java");
  stats.thread_named(ThreadId(1), "main", 5);
  stats.thread_named(ThreadId(1), "DestroyJavaVM", 6);  // it waits for the other threads
  world.start(1, 100, "java");                          // another ring
  trace::Snapshot snapshot;
  snapshot.thread_names = {{100, "java"}};
  world.snapshot(snapshot);
  EXPECT_EQ(stats.figures()[0].name, "main");
  snapshot.thread_names = {{100, "renamed"}};
  world.snapshot(snapshot);
  EXPECT_EQ(stats.figures()[0].name, "renamed");
}

std::vector<std::pair<Tick, std::string>> names_of(const model::ThreadFigures& thread) {
  std::vector<std::pair<Tick, std::string>> names;
  for (const model::ThreadNaming& each : thread.names) names.emplace_back(each.tick, each.name);
  return names;
}

TEST(ThreadStats, EachNameHasTheTimeItWasGiven) {
  model::ThreadStats stats;
  World world({&stats});
  world.start(1, 100, "java");
  stats.thread_named(ThreadId(1), "an-executor-of-", 5);          // the kernel's part …
  stats.thread_named(ThreadId(1), "an-executor-of-requests", 6);  // … of this one
  stats.thread_named(ThreadId(1), "an-executor-of-requests", 7);  // another ring
  stats.thread_named(ThreadId(1), "idle", 8);
  world.start(2, 200, "main");
  stats.thread_named(ThreadId(2), "DestroyJavaVM", 9);
  const auto figures = stats.figures();
  EXPECT_THAT(names_of(figures[0]), ElementsAre(Pair(0, "java"), Pair(5, "an-executor-of-requests"), Pair(8, "idle")));
  EXPECT_THAT(names_of(figures[1]), ElementsAre(Pair(1, "main"), Pair(9, "DestroyJavaVM")));
  EXPECT_EQ(figures[1].name, "main");
}

TEST(ThreadStats, OfAThreadThatIsRenamedForEachRequestTheNewestNamesAreKept) {
  model::ThreadStats stats;
  World world({&stats});
  world.start(1, 100, "worker");
  for (Tick i = 1; i <= 1000; i++) stats.thread_named(ThreadId(1), "request " + std::to_string(i), i);
  const auto figures = stats.figures();
  EXPECT_EQ(figures[0].names.size(), model::kMostNames);
  EXPECT_EQ(figures[0].names.back().name, "request 1000");
  EXPECT_EQ(figures[0].names_left_out, 1001 - model::kMostNames);
}

TEST(ThreadStats, WhatJavaSaysOfAThreadIsKnownOrNull) {
  model::ThreadStats stats;
  World world({&stats});
  for (std::uint32_t id = 1; id <= 3; id++) world.start(id, 100 * id, "thread");
  stats.thread_is_java(ThreadId(1), "pool", true);
  stats.thread_is_java(ThreadId(2), "", false);
  const auto figures = stats.figures();
  EXPECT_EQ(figures[0].java_group, "pool");
  EXPECT_EQ(figures[0].java_daemon, true);
  EXPECT_EQ(figures[1].java_group, std::nullopt);
  EXPECT_EQ(figures[1].java_daemon, false);
  EXPECT_EQ(figures[2].java_group, std::nullopt);
  EXPECT_EQ(figures[2].java_daemon, std::nullopt);
}

TEST(ThreadStats, TenThousandThreadsCostLessThanAKilobyteEach) {
  model::ThreadStats stats;
  World world({&stats});
  const std::uint64_t before = allocated_bytes();
  for (std::uint32_t id = 1; id <= 10000; id++) {
    world.start(id, 1000 + id, "pool-thread");
    world.allocate(id, kBase + id * 0x1000, 4000);
    world.free(id, kBase + id * 0x1000);
    world.end(id);
  }
  EXPECT_LT(allocated_bytes() - before, 10000u * 1024);
  EXPECT_EQ(stats.figures().size(), 10000u);
}

TEST(ThreadStats, AnAbsurdIdOfADamagedTraceCostsOneEntry) {
  model::ThreadStats stats;
  World world({&stats});
  const std::uint64_t before = allocated_bytes();
  world.allocate(0xFFFFFFF0, 0x1000, 8);
  EXPECT_LT(allocated_bytes() - before, 65536u);
  ASSERT_EQ(stats.figures().size(), 1u);
  EXPECT_EQ(index(stats.figures()[0].id), 0xFFFFFFF0u);
}

TEST(ThreadTable, KeepsEntriesThatWereFarWhenTheDensePartReachesThem) {
  model::ThreadTable<int> table;
  table[ThreadId(20000)] = 7;
  for (std::uint32_t id = 0; id < 30000; id += 1000) table[ThreadId(id)] += 1;
  EXPECT_EQ(table[ThreadId(20000)], 8);
  ASSERT_NE(table.find(ThreadId(29000)), nullptr);
  EXPECT_EQ(table.find(ThreadId(1u << 30)), nullptr);
}

}  // namespace
}  // namespace heapspy::test
