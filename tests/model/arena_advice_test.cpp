// What settings are judged by: the dynamic threshold, what fewer arenas would need, and who wants locks at once.
#include <gtest/gtest.h>

#include "analyzer/model/arena_folds.h"
#include "analyzer/model/concurrency.h"
#include "analyzer/model/dynamic_threshold.h"
#include "analyzer/model/heap_state.h"
#include "tests/model/world.h"
#include "tests/support/amounts.h"

namespace heapspy::test {
namespace {

trace::Block block(std::uint64_t address, std::uint64_t size) {
  trace::Block result;
  result.address = address;
  result.size = size;
  return result;
}

TEST(DynamicThreshold, IsRaisedByTheFreeOfALargerMappingUpTo32MiB) {
  model::DynamicThreshold threshold{model::HeapFacts()};
  threshold.allocated(block(kMapped + 16, 160'000));
  EXPECT_EQ(threshold.figures().large_in_heaps, 0u);
  threshold.released(block(kMapped + 16, 160'000), 77);
  EXPECT_EQ(threshold.figures().mmap_threshold_bytes, 163'840u);  // 40 pages
  EXPECT_EQ(threshold.figures().trim_threshold_bytes, 327'680u);
  EXPECT_EQ(threshold.figures().raised->block_bytes, 160'000u);
  EXPECT_EQ(threshold.figures().raised->tick, 77u);
  threshold.released(block(kMapped + 16, 140'000), 78);      // smaller
  threshold.released(block(kMapped + 16, 33 << 20), 79);     // too large
  threshold.released(block(kHeap + 0x5010, 1'000'000), 80);  // from the heap
  EXPECT_EQ(threshold.figures().raised->tick, 77u);
  threshold.allocated(block(kHeap + 0x5020, 160'000));
  EXPECT_EQ(threshold.figures().large_in_heaps, 1u);
}

TEST(DynamicThreshold, StaysWhereTheProgramSetsIt) {
  model::DynamicThreshold threshold{model::HeapFacts()};
  threshold.set({trace::MalloptCall::kArenaMax, 2});  // which has nothing to do with it
  trace::Block block;
  block.address = kMapped + 16;
  block.size = 1 << 20;
  threshold.released(block, 5);
  EXPECT_TRUE(threshold.figures().raised);
  threshold.set({trace::MalloptCall::kTrimThreshold, 512 << 20});
  block.size = 2 << 20;
  threshold.released(block, 6);
  EXPECT_EQ(threshold.figures().raised->tick, 5u);
  EXPECT_EQ(threshold.figures().trim_threshold_bytes, 512u << 20);
}

TEST(DynamicThreshold, StaysWhereASettingFixesIt) {
  model::HeapFacts facts;
  facts.dynamic_threshold = false;
  model::DynamicThreshold threshold(facts);
  threshold.released(block(kMapped + 16, 160'000), 77);
  EXPECT_EQ(threshold.figures().raised, std::nullopt);
}

TEST(DynamicThreshold, PagesOfLargeBlocksOfTheHeapAreTrimmableBecauseOfIt) {
  model::HeapFacts facts;
  World world;
  model::HeapState state(facts, {{model::Why::end, 0}}, world.for_each_live(), nullptr, 5);
  world.watch(&state);
  world.allocate(1, kMapped + 16, 160'000);
  world.free(1, kMapped + 16);
  world.allocate(1, kHeap + 0x2030, 160'000);  // pages 3 to 40 as a whole
  world.free(1, kHeap + 0x2030);
  world.allocate(1, kHeap + 0x5100, 64);  // on page 5: small again
  world.free(1, kHeap + 0x5100);
  world.allocate(1, kHeap + 0x40000, 64);
  trace::Snapshot snapshot;
  add_memory(snapshot, kHeap, 65, "[heap]");
  snapshot.brk_end = kHeap + 65 * 4096;
  world.snapshot(snapshot);
  const model::Moment& moment = state.moments().at(0);
  EXPECT_EQ(moment.heap.process.parts->trimmable_large, (38 - 1) * 4096u);
  EXPECT_EQ(moment.threshold.large_in_heaps, 1u);
}

TEST(ArenaFolds, BurstsThatDoNotOverlapNeedOneArenaOnly) {
  model::ArenaFolds folds;
  for (std::uint64_t arena = 0; arena < 8; arena++) {
    const std::uint64_t at = kRegion + (arena << 26);
    for (std::uint64_t i = 0; i < 10; i++) folds.add(at + i * 1024 + 16, 1000);
    for (std::uint64_t i = 0; i < 10; i++) folds.remove(at + i * 1024 + 16, 1000);
  }
  const auto needs = folds.needs();
  EXPECT_EQ(needs[0].arenas, 1u);
  EXPECT_EQ(needs[0].bytes, 10'080u);
  EXPECT_EQ(needs[1].bytes, 2 * 10'080u);
  EXPECT_EQ(needs[2].bytes, 4 * 10'080u);
}

TEST(ArenaFolds, BlocksThatLiveTogetherNeedWhatTheyNeed) {
  model::ArenaFolds folds;
  for (std::uint64_t arena = 0; arena < 8; arena++) folds.add(kRegion + (arena << 26) + 16, 1000);
  folds.add(kHeap + 16, 1000);
  for (const model::ArenaNeed& need : folds.needs()) EXPECT_EQ(need.bytes, 9 * 1008u);
  folds.remove(kHeap + 16, 1'000'000);  // lost events: nothing lives, and no more than that
  EXPECT_EQ(folds.needs()[0].bytes, 9 * 1008u);
}

TEST(Concurrency, CountsThreadsWithinTheSameMillisecondOnly) {
  model::Concurrency together(1000);
  for (trace::Tick tick = 0; tick < 1000; tick += 10) together.call(trace::ThreadId(1 + tick / 10 % 4), tick);  // four at once
  for (std::uint32_t thread = 1; thread <= 4; thread++)                                                         // one by one
    for (trace::Tick tick = 0; tick < 1000; tick += 10) together.call(trace::ThreadId(thread), thread * 1000 + tick);
  for (trace::Tick tick = 0; tick < 1000; tick += 10)  // one after the other within a millisecond
    together.call(trace::ThreadId(1 + tick / 250), 9000 + tick);
  const model::ConcurrencyFigures figures = together.figures();
  EXPECT_EQ(figures.calls, 600u);
  EXPECT_EQ(figures.calls_together, 100u);
  EXPECT_EQ(figures.slices_together, 1u);
  EXPECT_EQ(figures.threads_at_once, 4.0);
}

}  // namespace
}  // namespace heapspy::test
