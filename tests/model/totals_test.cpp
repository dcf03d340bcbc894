#include "analyzer/model/totals.h"

#include <gtest/gtest.h>

#include "tests/model/world.h"

namespace heapspy::test {
namespace {

TEST(Totals, CountsEveryCallByItsEntryPoint) {
  model::TotalsCounter counter;
  World world({&counter});
  world.allocate(1, 0x1000, 10);
  world.allocate(1, 0x1100, 20, Origin::calloc);
  world.allocate(1, 0x1200, 30, Origin::aligned);
  world.allocate(1, 0x1300, 40, Origin::operator_new);
  world.allocate(1, 0x1400, 50, Origin::operator_new_aligned);
  world.allocate(1, 0x1500, 60, Origin::realloc);
  world.reallocate(1, 0x1000, 0x1600, 100);
  world.fail(1, Origin::malloc, 1ull << 62);
  world.fail(1, Origin::realloc, 1ull << 62);
  world.free(1, 0x1100);
  world.free(1, 0x1300, Release::operator_delete);
  world.realloc_to_nothing(1, 0x1500);
  const model::Totals& t = counter.totals();
  EXPECT_EQ(t.allocations, 6u);
  EXPECT_EQ(t.reallocations, 1u);
  EXPECT_EQ(t.frees, 3u);
  EXPECT_EQ(t.failed, 2u);
  EXPECT_EQ(t.bytes_allocated, 10u + 20 + 30 + 40 + 50 + 60 + 100);
  EXPECT_EQ(t.live_blocks, 3u);
  EXPECT_EQ(t.live_bytes, 30u + 50 + 100);
  EXPECT_EQ(t.peak_live_bytes, 300u);  // after the reallocation to 100
  EXPECT_EQ(t.peak_tick, 6u);
  EXPECT_EQ(t.calls.malloc, 2u);
  EXPECT_EQ(t.calls.calloc, 1u);
  EXPECT_EQ(t.calls.aligned, 1u);
  EXPECT_EQ(t.calls.operator_new, 1u);
  EXPECT_EQ(t.calls.operator_new_aligned, 1u);
  EXPECT_EQ(t.calls.realloc, 4u);  // new, resized, failed, freed
  EXPECT_EQ(t.calls.free, 1u);
  EXPECT_EQ(t.calls.operator_delete, 1u);
}

TEST(Totals, TemporaryIsFreedByTheVeryNextEventOfItsThread) {
  model::TotalsCounter counter;
  World world({&counter});
  world.allocate(1, 0x1000, 8);
  world.allocate(2, 0x2000, 8);  // another thread's events do not count
  world.free(1, 0x1000);         // temporary
  world.free(1, 0x2000);         // freed by another thread
  world.allocate(1, 0x3000, 8);
  world.fail(1, Origin::malloc, 1);
  world.free(1, 0x3000);  // a failed call came between
  world.allocate(1, 0x4000, 8);
  world.reallocate(1, 0x4000, 0x4000, 16);
  world.free(1, 0x4000);  // a realloc came between
  EXPECT_EQ(counter.totals().temporary, 1u);
}

TEST(Totals, AnAddressGivenToAnotherThreadMeanwhileIsNotTemporary) {
  model::TotalsCounter counter;
  World world({&counter});
  world.allocate(1, 0x1000, 8);
  world.free(2, 0x1000);
  world.allocate(2, 0x1000, 8);
  world.free(1, 0x1000);  // thread 1's last event allocated this address, but not this block
  EXPECT_EQ(counter.totals().temporary, 0u);
}

TEST(Totals, UnknownAndInheritedFreesAreFreesOfNoBlock) {
  model::TotalsCounter counter;
  counter.unknown_release(ThreadId(1), 0x1000, Release::free, false, 1);
  counter.unknown_release(ThreadId(1), 0x2000, Release::free, true, 2);
  counter.unknown_release(ThreadId(1), 0x3000, Release::operator_delete, true, 3);
  EXPECT_EQ(counter.totals().frees, 3u);
  EXPECT_EQ(counter.totals().unknown_frees, 1u);
  EXPECT_EQ(counter.totals().inherited_frees, 2u);
  EXPECT_EQ(counter.totals().live_bytes, 0u);
  EXPECT_EQ(counter.totals().live_blocks, 0u);
}

TEST(Totals, ReallocOfAnUnknownBlockMakesItLive) {
  model::TotalsCounter counter;
  World world({&counter});
  world.reallocate(1, 0x1000, 0x2000, 64);
  EXPECT_EQ(counter.totals().allocations, 0u);
  EXPECT_EQ(counter.totals().reallocations, 1u);
  EXPECT_EQ(counter.totals().live_blocks, 1u);
  EXPECT_EQ(counter.totals().live_bytes, 64u);
}

TEST(Totals, AVanishedBlockIsNoFree) {
  model::TotalsCounter counter;
  World world({&counter});
  const Block block = world.allocate(1, 0x1000, 64);
  counter.vanished(block, 5);
  EXPECT_EQ(counter.totals().frees, 0u);
  EXPECT_EQ(counter.totals().live_blocks, 0u);
  EXPECT_EQ(counter.totals().live_bytes, 0u);
}

}  // namespace
}  // namespace heapspy::test
