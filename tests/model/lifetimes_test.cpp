#include "analyzer/model/lifetimes.h"

#include <gtest/gtest.h>

namespace heapspy::test {
namespace {

using trace::Block;

TEST(Lifetimes, AreDecadesOfSecondsFromAllocationToFree) {
  model::Lifetimes lifetimes{trace::Clock{}};  // a tick is a nanosecond
  Block block;
  const auto live = [&](std::uint64_t nanoseconds, std::uint64_t size) {
    block.born = 1000;
    block.size = size;
    lifetimes.released(block, trace::ThreadId(1), trace::Release::free, 1000 + nanoseconds);
  };
  live(0, 1);
  live(9'990, 2);
  live(10'010, 4);
  live(99'000'000, 8);    // 99 ms
  live(101'000'000, 16);  // 101 ms
  const auto rows = lifetimes.rows();
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0].from_s, 0);
  EXPECT_DOUBLE_EQ(rows[0].to_s, 1e-5);
  EXPECT_EQ(rows[0].blocks, 2u);
  EXPECT_EQ(rows[0].bytes, 3u);
  EXPECT_EQ(rows[1].blocks, 1u);
  EXPECT_EQ(rows[1].bytes, 4u);
  EXPECT_EQ(rows[2].blocks, 0u);
  EXPECT_EQ(rows[4].bytes, 8u);
  EXPECT_EQ(rows[5].bytes, 16u);
  EXPECT_DOUBLE_EQ(rows[5].from_s, 0.1);
}

TEST(Lifetimes, AFreeThatSeemsEarlierThanItsAllocationLivedNoTime) {
  model::Lifetimes lifetimes{trace::Clock{}};
  Block block;
  block.born = 50;
  lifetimes.released(block, trace::ThreadId(1), trace::Release::free, 40);
  ASSERT_EQ(lifetimes.rows().size(), 1u);
  EXPECT_EQ(lifetimes.rows()[0].from_s, 0);
}

}  // namespace
}  // namespace heapspy::test
