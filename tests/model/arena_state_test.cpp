#include "analyzer/model/arena_state.h"

#include <gtest/gtest.h>

#include <random>

#include "analyzer/model/heap_state.h"
#include "tests/model/world.h"
#include "tests/support/amounts.h"

namespace heapspy::test {
namespace {

using model::ArenaFigures;
using model::ArenaKind;
using model::ArenaState;
using model::HeapFacts;

constexpr std::uint64_t kArenaHeader = 0x30 + 2200;

// Drives a HeapState as a trace would, and asks it for a moment.
class Heap : public testing::Test {
 protected:
  HeapFacts facts;
  World world;
  trace::Snapshot snapshot;
  std::unique_ptr<model::HeapState> state;

  void begin() {
    state = std::make_unique<model::HeapState>(facts, std::vector<model::WantedMoment>{{model::Why::end, 0}},
                                               world.for_each_live(), nullptr, 5);
    world.watch(state.get());
  }
  const model::Moment& end() {
    world.snapshot(snapshot);
    return state->moments().at(0);
  }

  void main_heap(std::uint64_t pages, std::vector<std::uint64_t> resident = {}) {
    add_memory(snapshot, kHeap, pages, "[heap]", std::move(resident));
    snapshot.brk_end = kHeap + pages * kPage;
  }
  void secondary(std::uint64_t address, std::uint64_t pages, std::uint64_t arena, std::uint64_t previous,
                 std::uint64_t top = 0) {
    add_memory(snapshot, address, pages);
    snapshot.heaps.push_back({address, arena, previous, pages * kPage, top, 0});
  }

  static void expect_identity(const ArenaFigures& arena) {
    ASSERT_TRUE(arena.parts);
    EXPECT_EQ(*arena.resident_bytes,
              arena.parts->in_use() + *arena.trimmable_bytes + *arena.pinned_bytes + *arena.cached_bytes);
  }
};

TEST_F(Heap, FreePagesOfTheMainHeapAreTrimmableAndPartsSum) {
  begin();
  main_heap(10);
  world.allocate(1, kHeap + 3 * kPage + 16, 1000);  // chunk 1008
  const model::Moment& moment = end();
  ASSERT_EQ(moment.heap.arenas.size(), 1u);
  const ArenaFigures& main = moment.heap.arenas[0];
  EXPECT_EQ(main.id, 1u);
  EXPECT_EQ(main.kind, ArenaKind::main);
  EXPECT_EQ(main.address, kHeap);
  EXPECT_EQ(main.heaps, 1u);
  EXPECT_EQ(main.live_bytes, 1000u);
  EXPECT_EQ(main.live_blocks, 1u);
  EXPECT_EQ(main.in_use_bytes, 1008u + 0x290);  // and the main thread's tcache
  EXPECT_EQ(main.system_bytes, 10 * kPage);
  EXPECT_EQ(main.resident_bytes, 10 * kPage);
  EXPECT_EQ(main.pinned_bytes, kPage - 1008);
  EXPECT_EQ(main.cached_bytes, kPage - 0x290);  // the first page, under the tcache
  EXPECT_EQ(main.trimmable_bytes, 8 * kPage);
  EXPECT_DOUBLE_EQ(*main.fragmentation, 1 - 1000.0 / (10 * kPage));
  EXPECT_EQ(main.threads, std::vector{ThreadId(1)});
  expect_identity(main);
  expect_identity(moment.heap.process);
}

TEST_F(Heap, PagesThatAreNotResidentCostNothing) {
  begin();
  main_heap(10, {0, 3, 7});
  world.allocate(1, kHeap + 2 * kPage + 16, 8000);  // pages 2, 3 and the begin of 4; only 3 is resident
  const ArenaFigures& main = end().heap.arenas[0];
  EXPECT_EQ(main.live_bytes, 8000u);
  EXPECT_EQ(main.resident_bytes, 3 * kPage);
  EXPECT_EQ(main.parts->live, 8000 - (kPage - 16));
  EXPECT_EQ(main.trimmable_bytes, kPage);  // page 7
  expect_identity(main);
}

TEST_F(Heap, APagesFreeBytesAreChargedToItsBlocksInEqualParts) {
  begin();
  main_heap(4);
  const std::uint64_t page = kHeap + 2 * kPage;
  world.allocate(1, page + 16, 1000);  // chunk 1008
  world.allocate(2, page + 1040, 8);   // chunk 32
  world.allocate(2, page + 2064, 8);   // chunk 32
  const model::Moment& moment = end();
  const std::uint64_t pinned = kPage - 1008 - 32 - 32;
  EXPECT_EQ(moment.heap.process.pinned_bytes, pinned);
  ASSERT_EQ(moment.heap.pins.size(), 2u);
  EXPECT_EQ(moment.heap.pins[0].thread, ThreadId(2));  // by block, not by byte
  EXPECT_EQ(moment.heap.pins[0].bytes, 2016u);         // of 3024
  EXPECT_EQ(moment.heap.pins[0].blocks, 2u);
  EXPECT_EQ(moment.heap.pins[1].bytes, 1008u);
  ASSERT_EQ(moment.heap.pinning.size(), 3u);
  EXPECT_EQ(moment.heap.pinning[0].bytes, 1008u);
}

TEST_F(Heap, ABlockOverTwoPagesIsChargedForBoth) {
  begin();
  main_heap(6);
  world.allocate(1, kHeap + 2 * kPage + kPage - 32 + 16, 3000);  // chunk 3008: 24 bytes on page 2, 2984 on page 3
  world.allocate(2, kHeap + 3 * kPage + 3504, 8);                // shares page 3
  const model::Moment& moment = end();
  const std::uint64_t first = kPage - 24, second = kPage - 2984 - 32;
  EXPECT_EQ(moment.heap.process.pinned_bytes, first + second);
  EXPECT_EQ(moment.heap.pins[0].thread, ThreadId(1));
  EXPECT_EQ(moment.heap.pins[0].bytes, first + second / 2);
  EXPECT_EQ(moment.heap.pins[1].bytes, second / 2);
}

TEST_F(Heap, TheTopOfASecondaryArenaIsCachedAndNotTrimmable) {
  begin();
  secondary(kRegion, 100, kRegion + 0x30, 0, kRegion + 50 * kPage + 512);
  world.allocate(7, kRegion + 50 * kPage + 16, 480);  // chunk 496: ends where top begins
  const model::Moment& moment = end();
  ASSERT_EQ(moment.heap.arenas.size(), 1u);
  const ArenaFigures& arena = moment.heap.arenas[0];
  EXPECT_EQ(arena.kind, ArenaKind::secondary);
  EXPECT_EQ(arena.address, kRegion + 0x30);
  EXPECT_EQ(arena.in_use_bytes, 496 + kArenaHeader);
  EXPECT_EQ(arena.system_bytes, 100 * kPage);
  EXPECT_EQ(arena.pinned_bytes, kPage - 496);
  EXPECT_EQ(arena.trimmable_bytes, 49 * kPage);                        // 1 … 49
  EXPECT_EQ(arena.cached_bytes, 49 * kPage + (kPage - kArenaHeader));  // 51 … 99, and the first page
  expect_identity(arena);
}

TEST_F(Heap, WhereTopIsNotKnownItBeginsBehindTheLastBlock) {
  begin();
  secondary(kRegion, 100, kRegion + 0x30, 0);
  world.allocate(7, kRegion + 20 * kPage + 16, 480);
  world.allocate(7, kRegion + 70 * kPage + 16, 480);
  world.free(7, kRegion + 70 * kPage + 16);  // cached: holds its page
  const ArenaFigures& arena = end().heap.arenas[0];
  EXPECT_EQ(arena.trimmable_bytes, (19 + 49) * kPage);
  EXPECT_EQ(arena.cached_bytes, 30 * kPage + (kPage - kArenaHeader));
  EXPECT_EQ(arena.pinned_bytes, kPage - 496);
}

TEST_F(Heap, OnlyTheNewestHeapOfAChainHasATop) {
  begin();
  const std::uint64_t second = kRegion + (64ull << 20);
  secondary(kRegion, 16384, kRegion + 0x30, 0, second + 0x30);  // full size; top lies in the second heap
  secondary(second, 10, kRegion + 0x30, kRegion);
  world.allocate(3, kRegion + 100 * kPage + 16, 4000);
  const ArenaFigures& arena = end().heap.arenas[0];
  EXPECT_EQ(arena.heaps, 2u);
  EXPECT_EQ(arena.system_bytes, (16384 + 10) * kPage);
  // First heap: without its header page, the block's page and the fencepost's at its end.
  EXPECT_EQ(arena.trimmable_bytes, (16384 - 3) * kPage);
  EXPECT_EQ(arena.cached_bytes, (kPage - kArenaHeader) + kPage + (kPage - 0x30) + 9 * kPage);
  ASSERT_TRUE(arena.plug);
  EXPECT_EQ(arena.plug->block.address, kRegion + 100 * kPage + 16);  // the newest heap has no live block
  expect_identity(arena);
}

TEST_F(Heap, ThePlugIsTheHighestBlockAndHoldsWhatIsFreeBelowIt) {
  begin();
  main_heap(1000);
  for (std::uint64_t page = 1; page < 900; page++) world.allocate(1, kHeap + page * kPage + 16, 3000);
  const Block plug = world.allocate(2, kHeap + 950 * kPage + 16, 1);
  for (std::uint64_t page = 1; page < 900; page++) world.free(1, kHeap + page * kPage + 16);
  const model::Moment& moment = end();
  const ArenaFigures& main = moment.heap.arenas[0];
  ASSERT_TRUE(main.plug);
  EXPECT_EQ(main.plug->block.address, plug.address);
  EXPECT_EQ(main.plug->block.size, 1u);
  EXPECT_EQ(main.plug->block.thread, ThreadId(2));
  EXPECT_EQ(main.plug->block.born, 899u);
  EXPECT_EQ(main.plug->free_below_bytes, 949 * kPage + (kPage - 0x290));
  EXPECT_EQ(main.trimmable_bytes, 998 * kPage);
  EXPECT_EQ(main.pinned_bytes, kPage - 32);
  ASSERT_EQ(moment.heap.pinning.size(), 1u);
  EXPECT_EQ(moment.heap.pinning[0].block.address, plug.address);
}

TEST_F(Heap, PagesWithOnlyCachedBlocksAreCachedUntilTheThreadEnds) {
  begin();
  main_heap(4);
  world.allocate(2, kHeap + kPage + 16, 100);
  world.free(2, kHeap + kPage + 16);
  const ArenaFigures& main = end().heap.arenas[0];
  EXPECT_EQ(main.cached_bytes, kPage + (kPage - 0x290));
  EXPECT_EQ(main.trimmable_bytes, 2 * kPage);
  EXPECT_EQ(main.pinned_bytes, 0u);
}

TEST_F(Heap, CachedBlocksBesideALiveOneArePinned) {
  begin();
  main_heap(4);
  world.allocate(2, kHeap + kPage + 16, 100);
  world.allocate(2, kHeap + kPage + 2064, 100);
  world.free(2, kHeap + kPage + 16);
  const ArenaFigures& main = end().heap.arenas[0];
  EXPECT_EQ(main.pinned_bytes, kPage - 112);
  EXPECT_EQ(main.cached_bytes, kPage - 0x290);
}

TEST_F(Heap, AnEndedThreadsCacheIsTrimmable) {
  begin();
  main_heap(4);
  world.allocate(2, kHeap + kPage + 16, 100);
  world.free(2, kHeap + kPage + 16);
  world.end(2);
  EXPECT_EQ(end().heap.arenas[0].trimmable_bytes, 3 * kPage);
}

TEST_F(Heap, BlocksInMappingsOfTheirOwnAreInUseAsWholePages) {
  begin();
  main_heap(1);
  add_memory(snapshot, kMapped, 50, "", {0, 1, 2, 30});
  world.allocate(1, kMapped + 16, 49 * kPage);  // 50 pages mapped, four touched
  const model::Moment& moment = end();
  ASSERT_EQ(moment.heap.arenas.size(), 2u);
  const ArenaFigures& mmapped = moment.heap.arenas[1];
  EXPECT_EQ(mmapped.kind, ArenaKind::mmapped);
  EXPECT_EQ(mmapped.live_bytes, 49 * kPage);
  EXPECT_EQ(mmapped.system_bytes, 50 * kPage);
  EXPECT_EQ(mmapped.in_use_bytes, 50 * kPage);
  EXPECT_EQ(mmapped.resident_bytes, 4 * kPage);
  EXPECT_EQ(mmapped.parts->live, 4 * kPage - 16);
  EXPECT_EQ(mmapped.parts->overhead, 16u);
  EXPECT_EQ(mmapped.pinned_bytes, 0u);
  EXPECT_EQ(mmapped.fragmentation, 0.0);  // live, but not resident
  expect_identity(mmapped);
  EXPECT_EQ(state->pages().word(kMapped), 0u);  // large blocks leave the page map again
}

TEST_F(Heap, ALargeBlockInsideTheMainHeapIsOnItsPagesMeanwhile) {
  begin();
  main_heap(200);
  world.allocate(1, kHeap + 10 * kPage + 16, 150000);  // the dynamic threshold may put it here
  const ArenaFigures& main = end().heap.arenas[0];
  const std::uint64_t chunk = model::glibc_chunk_bytes(150000);
  const std::uint64_t pages = (8 + chunk + kPage - 1) / kPage;
  EXPECT_EQ(main.in_use_bytes, chunk + 0x290);
  EXPECT_EQ(main.pinned_bytes, pages * kPage - chunk);
  EXPECT_EQ(main.trimmable_bytes, (199 - pages) * kPage);
  expect_identity(main);
}

TEST_F(Heap, SmallBlocksElsewhereAreOther) {
  begin();
  main_heap(1);
  add_memory(snapshot, kMapped, 4);
  world.allocate(1, kMapped + kPage + 64, 100);
  world.allocate(1, kMapped + kPage + 256, 100);
  const model::Moment& moment = end();
  const ArenaFigures& other = moment.heap.arenas[1];
  EXPECT_EQ(other.kind, ArenaKind::other);
  EXPECT_EQ(other.resident_bytes, kPage);
  EXPECT_EQ(other.pinned_bytes, kPage - 224);
  EXPECT_FALSE(other.system_bytes);
  EXPECT_EQ(moment.heap.process.system_bytes, kPage);
  expect_identity(other);
}

TEST_F(Heap, OtherAllocatorsGetNoClaimsAboutHeadersOrTrim) {
  facts.glibc = false;
  facts.cache_depth = 0;
  begin();
  add_memory(snapshot, kMapped, 4);
  world.allocate(1, kMapped, 1000);
  world.allocate(1, kMapped + 1024, 1000);
  const model::Moment& moment = end();
  ASSERT_EQ(moment.heap.arenas.size(), 1u);
  const ArenaFigures& other = moment.heap.arenas[0];
  EXPECT_EQ(other.kind, ArenaKind::other);
  EXPECT_EQ(other.live_bytes, 2000u);
  EXPECT_FALSE(other.in_use_bytes);
  EXPECT_FALSE(other.resident_bytes);
  EXPECT_FALSE(other.trimmable_bytes);
  EXPECT_FALSE(moment.heap.process.system_bytes);
  ASSERT_EQ(moment.heap.shares.size(), 1u);
  EXPECT_EQ(moment.heap.shares[0].parts.live, 2000u);
  EXPECT_TRUE(moment.heap.pins.empty());
}

TEST_F(Heap, AForkedChildDoesNotClaimToKnowWhatIsFree) {
  facts.forked = true;
  begin();
  main_heap(10);
  world.allocate(1, kHeap + 3 * kPage + 16, 1000);
  const model::Moment& moment = end();
  const ArenaFigures& main = moment.heap.arenas[0];
  EXPECT_EQ(main.resident_bytes, 10 * kPage);
  EXPECT_FALSE(main.trimmable_bytes);
  EXPECT_FALSE(main.pinned_bytes);
  EXPECT_FALSE(main.fragmentation);
  EXPECT_EQ(moment.heap.shares[0].parts.live, 1000u);
  EXPECT_EQ(moment.heap.shares[0].unsplit_bytes, 10 * kPage - 1000);
}

TEST_F(Heap, WithoutResidencyOfAHeapItIsNotKnown) {
  begin();
  main_heap(10);
  snapshot.resident[0].kind = format::Residency::unknown;
  world.allocate(1, kHeap + 3 * kPage + 16, 1000);
  const model::Moment& moment = end();
  const ArenaFigures& main = moment.heap.arenas[0];
  EXPECT_FALSE(main.resident_bytes);
  EXPECT_FALSE(main.trimmable_bytes);
  EXPECT_FALSE(main.fragmentation);
  EXPECT_EQ(main.in_use_bytes, 1008u + 0x290);
  EXPECT_FALSE(moment.heap.process.resident_bytes);
}

TEST_F(Heap, WithoutASnapshotTheMomentHasLiveFiguresOnly) {
  begin();
  world.allocate(1, kHeap + 16, 1000);
  const model::Moment moment = state->moment(model::Why::end, world.now);
  EXPECT_FALSE(moment.rss_bytes);
  ASSERT_EQ(moment.heap.arenas.size(), 1u);
  EXPECT_EQ(moment.heap.arenas[0].live_bytes, 1000u);
  EXPECT_EQ(moment.heap.arenas[0].in_use_bytes, 1008u);
  EXPECT_FALSE(moment.heap.arenas[0].resident_bytes);
  EXPECT_FALSE(moment.heap.process.pinned_bytes);
}

TEST_F(Heap, AThreadBelongsToTheArenaItAllocatedFromLast) {
  begin();
  main_heap(10);
  secondary(kRegion, 10, kRegion + 0x30, 0);
  world.allocate(5, kRegion + kPage + 16, 2000);
  world.free(5, kRegion + kPage + 16);
  world.allocate(6, kHeap + kPage + 16, 2000);
  const model::Moment& moment = end();
  EXPECT_EQ(moment.heap.arenas[0].threads, std::vector{ThreadId(6)});
  EXPECT_EQ(moment.heap.arenas[1].threads, std::vector{ThreadId(5)});
}

TEST_F(Heap, BlocksWhoseEndWasLostDoNotStayOnThePages) {
  begin();
  main_heap(10);
  world.allocate(1, kHeap + 3 * kPage + 16, 1000);
  const Block lost = world.allocate(1, kHeap + 5 * kPage + 16, 1000);
  const_cast<std::map<std::uint64_t, Block>&>(world.live()).erase(lost.address);  // the timeline dropped it silently
  EXPECT_EQ(end().heap.arenas[0].live_blocks, 1u);
  EXPECT_EQ(state->moments()[0].heap.process.pinned_bytes, kPage - 1008);
}

// Whatever lies where: parts sum to resident, charges sum to pinned, nothing is counted twice.
TEST_F(Heap, IdentitiesHoldForRandomHeaps) {
  std::mt19937_64 random(42);
  for (int round = 0; round < 20; round++) {
    world = World();
    snapshot = trace::Snapshot();
    begin();
    const auto some = [&](std::uint64_t pages) {
      std::vector<std::uint64_t> resident;
      for (std::uint64_t i = 0; i < pages; i++)
        if (random() % 4) resident.push_back(i);
      return resident;
    };
    main_heap(300, some(300));
    std::vector<std::uint64_t> bases{kHeap + 0x290};
    for (std::uint64_t a = 0; a < 3; a++) {
      const std::uint64_t address = kRegion + a * (64ull << 20);
      secondary(address, 200, address + 0x30, 0, a == 1 ? address + 190 * kPage : 0);
      snapshot.resident.back().kind = format::Residency::bitmap;
      snapshot.resident.back().bitmap = {random(), random(), random(), random()};
      bases.push_back(address + 2256);
    }
    for (const std::uint64_t base : bases) {
      std::uint64_t at = (base + 15) / 16 * 16 + 16;
      std::vector<std::uint64_t> blocks;
      while (at < base + 180 * kPage) {
        const std::uint64_t size = random() % (random() % 10 ? 700 : 9000);
        const auto thread = static_cast<std::uint32_t>(1 + random() % 9);
        world.allocate(thread, at, size);
        blocks.push_back(at);
        at += model::glibc_chunk_bytes(size);
      }
      for (const std::uint64_t address : blocks)
        if (random() % 10) world.free(static_cast<std::uint32_t>(1 + random() % 9), address);
    }
    const ArenaState& heap = end().heap;
    ASSERT_EQ(heap.arenas.size(), 4u);
    std::uint64_t resident = 0, shares = 0;
    for (const ArenaFigures& arena : heap.arenas) {
      expect_identity(arena);
      resident += *arena.resident_bytes;
      EXPECT_GE(*arena.in_use_bytes, arena.live_bytes);
    }
    expect_identity(heap.process);
    EXPECT_EQ(resident, *heap.process.resident_bytes);
    for (const model::MappingShare& share : heap.shares) shares += share.parts.sum();
    EXPECT_EQ(shares, resident);
    std::uint64_t charged = 0;
    for (const model::ThreadPin& pin : heap.pins) charged += pin.bytes;
    EXPECT_EQ(charged, *heap.process.pinned_bytes);
    ASSERT_EQ(heap.pinning.size(), 5u);
    EXPECT_GE(heap.pinning[0].bytes, heap.pinning[4].bytes);
  }
}

TEST_F(Heap, TheCurveLearnsPinnedBytesAtEverySnapshot) {
  model::TimelineCurve curve;
  state = std::make_unique<model::HeapState>(facts, std::vector<model::WantedMoment>{{model::Why::end, 1}},
                                             world.for_each_live(), &curve, 5);
  world.watch(&curve);
  world.watch(state.get());
  main_heap(10);
  world.allocate(1, kHeap + 3 * kPage + 16, 1000);
  world.snapshot(snapshot);
  world.allocate(1, kHeap + 5 * kPage + 16, 1000);
  snapshot.rss_bytes++;
  world.snapshot(snapshot);
  ASSERT_EQ(state->moments().size(), 1u);
  std::vector<std::uint64_t> pinned;
  for (const model::CurvePoint& point : curve.points())
    if (point.pinned_bytes) pinned.push_back(*point.pinned_bytes);
  EXPECT_EQ(pinned.back(), 2 * (kPage - 1008));
  EXPECT_EQ(curve.points().back().system_bytes, 10 * kPage);
}

}  // namespace
}  // namespace heapspy::test
