#include "analyzer/model/site_stats.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "analyzer/model/heap_state.h"
#include "tests/model/world.h"
#include "tests/support/amounts.h"

namespace heapspy::test {
namespace {

using model::SiteFigures;
using model::SiteHold;
using model::SiteScope;
using model::SiteStats;
using trace::SiteId;

class Sites : public testing::Test {
 protected:
  SiteScope scope;
  SiteStats stats{scope, trace::Clock()};  // a tick is a nanosecond
  World world{&stats};

  SiteFigures of(std::uint32_t site) {
    for (const SiteFigures& each : stats.figures(world.now))
      if (each.site == SiteId{site}) return each;
    return {};
  }
};

TEST_F(Sites, CountWhatWasAllocatedThereAndWhatBecameOfIt) {
  world.site = SiteId{1};
  world.allocate(1, 0x1000, 100);
  world.free(1, 0x1000);  // temporary
  world.allocate(2, 0x2000, 200);
  world.site = SiteId{2};
  world.allocate(1, 0x3000, 50);
  world.free(1, 0x2000);
  world.site = SiteId::none;
  world.allocate(1, 0x4000, 7);
  EXPECT_EQ(stats.figures(world.now).size(), 3u);
  const SiteFigures one = of(1), two = of(2), none = of(0);
  EXPECT_EQ(one.allocations, 2u);
  EXPECT_EQ(one.bytes, 300u);
  EXPECT_EQ(one.temporary, 1u);
  EXPECT_EQ(one.live_bytes, 0u);
  EXPECT_EQ(one.peak_bytes, 200u) << "the program's peak: 200 + 50";
  EXPECT_EQ(one.ended_blocks, 2u);
  EXPECT_DOUBLE_EQ(one.mean_lifetime_s, 1.5e-9);
  EXPECT_EQ(one.lifetimes[0], 2u);
  EXPECT_EQ(one.threads, (std::vector<ThreadId>{ThreadId{1}, ThreadId{2}}));
  EXPECT_EQ(one.peak_blocks, 1u);
  EXPECT_EQ(one.most_bytes, 200u);
  EXPECT_EQ(one.most_blocks, 1u);
  EXPECT_DOUBLE_EQ(one.lifetimes_s, 3e-9);
  EXPECT_DOUBLE_EQ(two.lifetimes_s, 3e-9) << "lives on: from tick 3 to 6";
  EXPECT_EQ(two.peak_bytes, 50u);
  EXPECT_EQ(two.live_blocks, 1u);
  EXPECT_EQ(two.threads, (std::vector<ThreadId>{ThreadId{1}}));
  EXPECT_EQ(none.live_bytes, 7u);
  EXPECT_EQ(none.peak_bytes, 0u);
}

TEST_F(Sites, KnowWhatReallocCarriedAgainstWhatCameOfIt) {
  world.site = SiteId{1};
  world.allocate(1, 0x1000, 1000, Origin::realloc);  // realloc(NULL, 1000)
  for (std::uint64_t i = 1; i <= 9; i++) world.reallocate(1, i * 0x1000, (i + 1) * 0x1000, 1000 + i * 1000);
  world.reallocate(1, 0xA000, 0xA000, 5000);  // shrinks in place
  const SiteFigures one = of(1);
  EXPECT_EQ(one.allocations, 1u);
  EXPECT_EQ(one.reallocations, 10u);
  EXPECT_EQ(one.carried_bytes, 45000u + 5000u);
  EXPECT_EQ(one.moved_bytes, 45000u);
  EXPECT_EQ(one.final_bytes, 5000u);
  EXPECT_EQ(one.largest_bytes, 10000u);
  EXPECT_EQ(one.live_bytes, 5000u);
  EXPECT_EQ(one.peak_bytes, 10000u);
}

TEST_F(Sites, GetABlockWithItsRealloc) {
  world.site = SiteId{1};
  world.allocate(1, 0x1000, 100);
  world.site = SiteId{2};
  world.reallocate(2, 0x1000, 0x1000, 300);
  EXPECT_EQ(of(1).live_bytes, 0u);
  EXPECT_EQ(of(2).live_bytes, 300u);
  EXPECT_EQ(of(2).live_blocks, 1u);
  EXPECT_EQ(of(2).final_bytes, 300u);
  world.free(2, 0x1000);
  EXPECT_EQ(of(2).live_bytes, 0u);
  EXPECT_EQ(of(2).ended_blocks, 1u);
}

TEST_F(Sites, HeldAtThePeakWhatTheyHeldThen) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; round++) {
    SiteStats counted(scope, trace::Clock());
    World program{&counted};
    std::map<std::uint32_t, std::uint64_t> held, at_peak;
    std::uint64_t live = 0, peak = 0;
    std::vector<std::uint64_t> addresses;
    for (int i = 0; i < 300; i++) {
      if (addresses.empty() || random() % 5 < 3) {
        const std::uint32_t site = random() % 6;
        const std::uint64_t size = random() % 100;
        addresses.push_back(0x1000u * static_cast<unsigned>(i + 1));
        program.site = SiteId{site};
        program.allocate(1, addresses.back(), size);
        held[site] += size;
        live += size;
      } else {
        const std::size_t which = random() % addresses.size();
        const Block block = program.live().at(addresses[which]);
        program.free(1, block.address);
        held[index(block.site)] -= block.size;
        live -= block.size;
        addresses.erase(addresses.begin() + static_cast<std::ptrdiff_t>(which));
      }
      if (live > peak) peak = live, at_peak = held;
    }
    for (const SiteFigures& each : counted.figures(program.now)) EXPECT_EQ(each.peak_bytes, at_peak[index(each.site)]);
  }
}

TEST_F(Sites, AreCountedForTheBlocksInScopeOnly) {
  scope.filter.threads = std::vector<ThreadId>{ThreadId{2}};
  scope.filter.least_bytes = 100;
  scope.filter.from = 2;
  scope.filter.to = 4;
  world.site = SiteId{1};
  world.allocate(2, 0x1000, 1000);  // too early
  world.allocate(2, 0x2000, 1000);
  world.allocate(1, 0x3000, 1000);  // another thread
  world.allocate(2, 0x4000, 99);    // too small
  world.allocate(2, 0x5000, 100);
  world.allocate(2, 0x6000, 100);  // too late
  EXPECT_EQ(of(1).allocations, 1u);
  EXPECT_EQ(of(1).live_bytes, 100u);
  EXPECT_EQ(of(1).peak_bytes, 100u);
  for (std::uint64_t address = 0x1000; address <= 0x6000; address += 0x1000) world.free(1, address);
  EXPECT_EQ(of(1).live_bytes, 0u);
  EXPECT_EQ(of(1).ended_blocks, 1u);
  EXPECT_EQ(of(1).peak_bytes, 100u);
}

// Two pages: one shared by blocks of two sites, one by two of the same.
TEST(SitesAtAMoment, HoldBlocksAndPinPages) {
  model::HeapFacts facts;
  facts.cache_depth = 0;
  World world;
  const SiteScope scope;
  model::HeapState state(facts, {{model::Why::end, 0}}, world.for_each_live(), nullptr, 20);
  state.look_at_sites(&scope);
  world.watch(&state);
  world.now = 800;
  world.site = SiteId{1};
  world.allocate(1, kHeap + kPage + 16, 1000);
  world.site = SiteId{2};
  world.allocate(1, kHeap + kPage + 2064, 1000);
  world.now = 1500;
  world.allocate(1, kHeap + 2 * kPage + 16, 1000);
  world.now = 1599;
  trace::Snapshot snapshot;
  add_memory(snapshot, kHeap, 10, "[heap]");
  snapshot.brk_end = kHeap + 10 * kPage;
  world.snapshot(snapshot);
  ASSERT_EQ(state.moments().size(), 1u);
  const model::ArenaState& heap = state.moments()[0].heap;
  ASSERT_EQ(heap.sites.size(), 2u);
  EXPECT_EQ(heap.sites[0].site, SiteId{1});
  EXPECT_EQ(heap.sites[0].live_blocks, 1);
  EXPECT_EQ(heap.sites[0].live_bytes, 1000);
  EXPECT_EQ(heap.sites[0].born_bytes[4], 1000);
  EXPECT_EQ(heap.sites[1].live_bytes, 2000);
  EXPECT_EQ(heap.sites[1].born_bytes[4], 1000);
  EXPECT_EQ(heap.sites[1].born_bytes[7], 1000);
  const std::uint64_t first = kPage - 2 * 1008, second = kPage - 1008;
  EXPECT_EQ(heap.process.pinned_bytes, first + second);
  EXPECT_EQ(heap.sites[0].pinned_bytes, first / 2);
  EXPECT_EQ(heap.sites[1].pinned_bytes, first / 2 + second);
  EXPECT_EQ(heap.sites[1].pinning_blocks, 2u);
}

}  // namespace
}  // namespace heapspy::test
