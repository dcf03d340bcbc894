// What leaves if sites let go of their blocks, counted by hand.
#include "analyzer/model/site_removal.h"

#include <gtest/gtest.h>

#include "analyzer/model/heap_state.h"
#include "tests/model/world.h"
#include "tests/support/amounts.h"

namespace heapspy::test {
namespace {

using model::Moment;
using trace::SiteId;

constexpr SiteId kFirst{1}, kSecond{2}, kThird{3};

class LetGo : public testing::Test {
 protected:
  LetGo() {
    facts.cache_depth = 0;
    state = std::make_unique<model::HeapState>(facts, std::vector<model::WantedMoment>{{model::Why::end, 0}},
                                               world.for_each_live(), nullptr, 5);
    state->look_at_sites(&scope);
    world.watch(state.get());
  }
  void allocate(SiteId site, std::uint64_t address, std::uint64_t size) {
    world.site = site;
    world.allocate(1, address, size);
  }
  const std::vector<Moment::FreedSite>& end() {
    world.snapshot(snapshot);
    return state->moments().at(0).freed_sites;
  }

  model::HeapFacts facts;
  model::SiteScope scope;
  World world;
  trace::Snapshot snapshot;
  std::unique_ptr<model::HeapState> state;
};

TEST_F(LetGo, OnlyPagesThatNobodyElseHoldsLeave) {
  add_memory(snapshot, kHeap, 10, "[heap]");
  snapshot.brk_end = kHeap + 10 * kPage;
  for (std::uint64_t page = 1; page < 6; page++) allocate(kFirst, kHeap + page * kPage + 512, 64);
  allocate(kSecond, kHeap + 2 * kPage + 1024, 32);
  allocate(kSecond, kHeap + 7 * kPage + 1024, 32);
  allocate(kThird, kHeap + 3 * kPage + 2048, 200);
  const auto& freed = end();
  ASSERT_EQ(freed.size(), 3u);
  EXPECT_EQ(freed[0].site, kFirst);
  EXPECT_EQ(freed[0].blocks, 5u);
  EXPECT_EQ(freed[0].live_bytes, 5u * 64);
  EXPECT_EQ(freed[0].returned_bytes, 3 * kPage);  // 1, 4 and 5; on 2 and 3 the others have blocks
  EXPECT_EQ(freed[1].site, kSecond);
  EXPECT_EQ(freed[1].returned_bytes, 5 * kPage);  // 2 and 7
  EXPECT_EQ(freed[2].returned_bytes, 6 * kPage);  // all of them
  // The page map is as it was.
  EXPECT_EQ(state->pages().live_blocks(), 8u);
  EXPECT_EQ(state->pages().page(kHeap + 2 * kPage).blocks, 2u);
}

TEST_F(LetGo, WhatAdjoinsTheTopOfASecondaryArenaStays) {
  add_memory(snapshot, kRegion, 8);
  const std::uint64_t arena = kRegion + 0x30, top = kRegion + 6 * kPage;
  snapshot.heaps.push_back({kRegion, arena, 0, 8 * kPage, top, 0});
  allocate(kSecond, kRegion + 3 * kPage + 512, 64);
  for (const std::uint64_t page : {2, 4, 5}) allocate(kFirst, kRegion + page * kPage + 512, 64);
  const auto& freed = end();
  ASSERT_EQ(freed.size(), 2u);
  EXPECT_EQ(freed[0].site, kFirst);
  EXPECT_EQ(freed[0].returned_bytes, kPage);  // 2; 4 and 5 become part of the top
  EXPECT_EQ(freed[1].returned_bytes, 0u);     // all of it does
}

}  // namespace
}  // namespace heapspy::test
