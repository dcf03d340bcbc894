#include "analyzer/trace/live_blocks.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>
#include <vector>

namespace heapspy::trace {
namespace {

Block block(std::uint64_t address, std::uint64_t size) {
  Block made;
  made.address = address;
  made.size = size;
  made.born = (1ull << 55) - 1;
  made.thread = ThreadId{0xA1A2A3};
  made.site = SiteId{0xB1B2B3B4};
  made.origin = Origin::operator_new_aligned;
  return made;
}

TEST(LiveBlocks, ReturnsABlockAsItWasPutIn) {
  LiveBlocks table;
  LiveSlot& slot = table.at(0x7FFFFFFFFFFFFFF8);
  EXPECT_FALSE(slot.live);
  table.begin_life(slot, block(0x7FFFFFFFFFFFFFF8, ~0ull), 0);
  const Block read = table.find(0x7FFFFFFFFFFFFFF8)->block();
  EXPECT_EQ(read.address, 0x7FFFFFFFFFFFFFF8u);
  EXPECT_EQ(read.size, LiveBlocks::kMostBytes);
  EXPECT_EQ(read.born, (1ull << 55) - 1);
  EXPECT_EQ(read.thread, ThreadId{0xA1A2A3});
  EXPECT_EQ(read.site, SiteId{0xB1B2B3B4});
  EXPECT_EQ(read.origin, Origin::operator_new_aligned);
  EXPECT_EQ(table.find(0x10), nullptr);
}

TEST(LiveBlocks, AgreesWithAMapThroughGrowthAndReuse) {
  for (const std::uint64_t spread : {1ull << 12, 1ull << 20, 1ull << 44}) {
    LiveBlocks table;
    std::unordered_map<std::uint64_t, std::uint64_t> truth;
    std::mt19937_64 random(spread);
    for (std::uint64_t i = 0; i < 400'000; i++) {
      const std::uint64_t address = 16 * (1 + random() % spread);
      LiveSlot& slot = table.at(address);
      ASSERT_EQ(slot.live, truth.count(address));
      if (slot.live) {
        ASSERT_EQ(slot.size, truth[address]);
        table.end_life(slot);
        truth.erase(address);
      } else {
        table.begin_life(slot, block(address, i), 0);
        truth[address] = i;
      }
      ASSERT_EQ(table.live(), truth.size());
    }
    std::uint64_t seen = 0;
    table.for_each([&](const Block& one) {
      seen++;
      ASSERT_EQ(one.size, truth.at(one.address));
    });
    EXPECT_EQ(seen, truth.size());
    for (const auto& [address, size] : truth) ASSERT_EQ(table.find(address)->size, size);
  }
}

TEST(LiveBlocks, TakesAtMostSixtyTwoBytesABlock) {
  LiveBlocks table;
  std::uint64_t most = 0;
  for (std::uint64_t i = 1; i <= 3'000'000; i++) {
    table.begin_life(table.at(i * 48), block(i * 48, 1), 0);
    if (i > 1'500'000) most = std::max(most, table.table_bytes() / i);
  }
  EXPECT_LE(most, 62u);
}

TEST(LiveBlocks, FollowsTheLiveBlocksNotTheAddressesEverSeen) {
  LiveBlocks table;
  for (std::uint64_t i = 1; i <= 4'000'000; i++) {
    table.begin_life(table.at(i * 16), block(i * 16, 1), 0);
    if (i > 100'000) table.end_life(table.at((i - 100'000) * 16));
  }
  EXPECT_EQ(table.live(), 100'000u);
  EXPECT_LE(table.table_bytes(), 100'000u * 80);
}

TEST(LiveBlocks, KeepsSlotsThatCarryNotes) {
  LiveBlocks table;
  for (std::uint64_t i = 1; i <= 100'000; i++) table.at(i * 16).noted = 1;
  for (std::uint64_t i = 100'001; i <= 300'000; i++) table.at(i * 16);
  for (std::uint64_t i = 1; i <= 100'000; i++) {
    ASSERT_NE(table.find(i * 16), nullptr);
    ASSERT_TRUE(table.find(i * 16)->noted);
  }
  EXPECT_EQ(table.live(), 0u);
}

}  // namespace
}  // namespace heapspy::trace
