#include "analyzer/model/size_histogram.h"

#include <gtest/gtest.h>

#include "tests/model/world.h"

namespace heapspy::test {
namespace {

TEST(SizeHistogram, BucketsArePowersOfTwo) {
  EXPECT_EQ(model::size_bucket(0), 0u);
  EXPECT_EQ(model::size_bucket(1), 1u);
  EXPECT_EQ(model::size_bucket(1023), 10u);
  EXPECT_EQ(model::size_bucket(1024), 11u);
  EXPECT_EQ(model::bucket_from(11), 1024u);
  EXPECT_EQ(model::bucket_to(11), 2048u);
  EXPECT_EQ(model::bucket_from(0), 0u);
  EXPECT_EQ(model::bucket_to(0), 1u);
  EXPECT_EQ(model::bucket_to(64), ~0ull);
}

TEST(SizeHistogram, LiveBlocksFollowAReallocToItsNewBucket) {
  model::SizeHistogram histogram;
  World world({&histogram});
  world.allocate(1, 0x1000, 100);
  world.allocate(1, 0x2000, 120);
  world.allocate(1, 0x3000, 5000);
  world.reallocate(1, 0x1000, 0x4000, 6000);
  world.free(1, 0x2000);
  const auto rows = histogram.rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].from, 64u);
  EXPECT_EQ(rows[0].to, 128u);
  EXPECT_EQ(rows[0].allocations, 2u);
  EXPECT_EQ(rows[0].bytes, 220u);
  EXPECT_EQ(rows[0].live_blocks, 0u);
  EXPECT_EQ(rows[0].live_bytes, 0u);
  EXPECT_EQ(rows[1].from, 4096u);
  EXPECT_EQ(rows[1].allocations, 1u);
  EXPECT_EQ(rows[1].bytes, 11000u);
  EXPECT_EQ(rows[1].live_blocks, 2u);
  EXPECT_EQ(rows[1].live_bytes, 11000u);
}

}  // namespace
}  // namespace heapspy::test
