#include "analyzer/model/thread_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/model/allocated_bytes.h"
#include "tests/support/amounts.h"

namespace heapspy::test {
namespace {

using model::HeapFacts;
using model::PageMap;
using model::ThreadCache;
using trace::ThreadId;

constexpr std::uint64_t kWhere = 0x7f0000000000;
constexpr ThreadId kOne{1}, kTwo{2};

class ThreadCaches : public testing::Test {
 protected:
  HeapFacts facts;
  PageMap pages{facts};
  ThreadCache caches{facts, pages};

  // Allocates and frees at `address`; true if the block was cached.
  bool freed(ThreadId thread, std::uint64_t address, std::uint64_t size) {
    pages.add(address, size);
    if (caches.put(thread, address, size)) return true;
    pages.remove(address, size);
    return false;
  }
};

TEST_F(ThreadCaches, HoldSevenBlocksOfEachChunkSize) {
  for (std::uint64_t i = 0; i < 7; i++) EXPECT_TRUE(freed(kOne, kWhere + 16 + i * 64, 24));
  EXPECT_FALSE(freed(kOne, kWhere + 16 + 7 * 64, 24));
  EXPECT_FALSE(freed(kOne, kWhere + 16 + 7 * 64, 1));  // the same chunk size
  EXPECT_TRUE(freed(kOne, kWhere + 16 + 8 * 64, 25));  // the next one
  EXPECT_TRUE(freed(kTwo, kWhere + 16 + 9 * 64, 24));  // another thread's
  EXPECT_EQ(caches.blocks(), 9u);
  EXPECT_EQ(caches.bytes(), 8u * 32 + 48);
}

TEST_F(ThreadCaches, TakeChunksUpTo1040Bytes) {
  EXPECT_TRUE(freed(kOne, kWhere + 16, 1032));
  EXPECT_FALSE(freed(kOne, kWhere + 0x10010, 1033));
}

TEST_F(ThreadCaches, KeepTheirPagesHeldUntilTheThreadEnds) {
  EXPECT_TRUE(freed(kOne, kWhere + 16, 100));
  EXPECT_EQ(pages.page(kWhere).cached, 112u);
  caches.end_thread(kOne);
  EXPECT_EQ(caches.blocks(), 0u);
  EXPECT_FALSE(pages.page(kWhere).held());
  EXPECT_FALSE(freed(kOne, kWhere + 16, 100));  // its cache is gone: later frees go to the arena
}

TEST_F(ThreadCaches, GiveABlockToWhoeverAllocatesItsAddress) {
  EXPECT_TRUE(freed(kOne, kWhere + 16, 24));
  EXPECT_TRUE(freed(kOne, kWhere + 48, 24));
  EXPECT_TRUE(freed(kOne, kWhere + 80, 24));
  EXPECT_TRUE(caches.take(kWhere + 48));  // from the middle: prediction and program differ
  EXPECT_FALSE(caches.take(kWhere + 48));
  EXPECT_TRUE(caches.take(kWhere + 80));
  EXPECT_TRUE(caches.holds(kWhere + 16));
  EXPECT_FALSE(caches.holds(kWhere + 80));
  EXPECT_EQ(caches.blocks(), 1u);
  EXPECT_EQ(pages.page(kWhere).cached, 32u);
}

TEST_F(ThreadCaches, MakeRoomAsBlocksAreTaken) {
  for (std::uint64_t i = 0; i < 7; i++) freed(kOne, kWhere + 16 + i * 64, 24);
  EXPECT_FALSE(freed(kOne, kWhere + 0x1010, 24));
  EXPECT_TRUE(caches.take(kWhere + 16));
  EXPECT_TRUE(freed(kOne, kWhere + 0x1010, 24));
}

TEST(ThreadCache, IsAbsentWithoutGlibcOrWhenTunedOff) {
  HeapFacts facts;
  facts.cache_depth = 0;
  PageMap pages{facts};
  ThreadCache caches{facts, pages};
  pages.add(kWhere + 16, 24);
  EXPECT_FALSE(caches.put(kOne, kWhere + 16, 24));
}

TEST_F(ThreadCaches, AgreeWithASimpleModelOverRandomEvents) {
  std::mt19937_64 random(7);
  std::map<std::uint64_t, std::pair<std::uint32_t, std::uint64_t>> model;  // address → thread, chunk
  std::map<std::pair<std::uint32_t, std::uint64_t>, int> depth;
  for (int i = 0; i < 200000; i++) {
    const std::uint64_t address = kWhere + 16 + 2048 * (random() % 20000);
    const auto cached = model.find(address);
    ASSERT_EQ(caches.take(address), cached != model.end());
    if (cached != model.end()) {
      depth[cached->second]--;
      model.erase(cached);
    }
    const auto thread = static_cast<std::uint32_t>(1 + random() % 50);
    const std::uint64_t size = random() % 1400;
    const std::uint64_t chunk = model::glibc_chunk_bytes(size);
    const bool expected = chunk <= 1040 && depth[{thread, chunk}] < 7;
    ASSERT_EQ(freed(ThreadId(thread), address, size), expected);
    if (expected) {
      model[address] = {thread, chunk};
      depth[{thread, chunk}]++;
    }
  }
  EXPECT_EQ(caches.blocks(), model.size());
  for (std::uint32_t thread = 1; thread <= 50; thread++) caches.end_thread(ThreadId(thread));
  EXPECT_EQ(caches.blocks(), 0u);
  EXPECT_EQ(caches.bytes(), 0u);
  for (std::uint64_t page = kWhere; page < kWhere + (40ull << 20); page += 4096) ASSERT_EQ(pages.word(page), 0u);
}

TEST_F(ThreadCaches, CostNothingForThreadsThatEnded) {
  freed(kOne, kWhere + 16, 24);
  const std::uint64_t before = allocated_bytes();
  for (std::uint32_t id = 2; id < 10002; id++) {
    freed(ThreadId(id), kWhere + 4096, 100);
    caches.end_thread(ThreadId(id));
    caches.take(kWhere + 4096);
  }
  EXPECT_LT(allocated_bytes() - before, 10000u * 32);
}

}  // namespace
}  // namespace heapspy::test
