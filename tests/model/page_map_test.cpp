#include "analyzer/model/page_map.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "analyzer/model/residency.h"
#include "tests/model/allocated_bytes.h"
#include "tests/model/world.h"
#include "tests/support/amounts.h"

namespace heapspy::test {
namespace {

using model::HeapFacts;
using model::PageCounts;
using model::PageMap;

constexpr std::uint64_t kPlace = 0x7f0000000000;

HeapFacts other_allocator() {
  HeapFacts facts;
  facts.glibc = false;
  return facts;
}

TEST(HeapFacts, ChunksAreWhatGlibcCarves) {
  EXPECT_EQ(model::glibc_chunk_bytes(0), 32u);
  EXPECT_EQ(model::glibc_chunk_bytes(24), 32u);
  EXPECT_EQ(model::glibc_chunk_bytes(25), 48u);
  EXPECT_EQ(model::glibc_chunk_bytes(40), 48u);
  EXPECT_EQ(model::glibc_chunk_bytes(1024), 1040u);  // three_chunks: addresses 1040 apart
}

TEST(HeapFacts, ReadsTheTunablesThatChangeThreadCaches) {
  trace::ProcessInfo process;
  process.allocator = "glibc";
  process.glibc_version = "2.36";
  process.environment = {
      {"GLIBC_TUNABLES", "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=3:glibc.malloc.tcache_max=0x100"},
      {"MALLOC_MMAP_THRESHOLD_", "65536"}};
  const HeapFacts facts = model::heap_facts(process);
  EXPECT_TRUE(facts.glibc);
  EXPECT_EQ(facts.glibc_minor, 36u);
  EXPECT_EQ(facts.cache_depth, 3u);
  EXPECT_EQ(facts.cache_limit, 256u);
  EXPECT_EQ(facts.mmap_threshold, 65536u);
  process.allocator = "jemalloc";
  EXPECT_FALSE(model::heap_facts(process).glibc);
  EXPECT_EQ(model::heap_facts(process).cache_depth, 0u);
  process.allocator = "glibc";
  process.environment.clear();
  process.glibc_version = "2.25";
  EXPECT_EQ(model::heap_facts(process).cache_depth, 0u);
  process.glibc_version = "2.43";
  EXPECT_EQ(model::heap_facts(process).cache_depth, 16u);
}

TEST(PageMap, CountsHeadersAndRoundingOnThePageWhereTheyLie) {
  PageMap pages{HeapFacts{}};
  pages.add(kPlace + 16, 100);  // chunk of 112 bytes, from 8 bytes before the block
  PageCounts page = pages.page(kPlace);
  EXPECT_EQ(page.used, 112u);
  EXPECT_EQ(page.live, 100u);
  EXPECT_EQ(page.blocks, 1u);
  EXPECT_EQ(page.guards, 0u);
  pages.remove(kPlace + 16, 100);
  EXPECT_EQ(pages.word(kPlace), 0u);
}

TEST(PageMap, ABlockAcrossPagesCountsOnceOnEach) {
  PageMap pages{HeapFacts{}};
  const std::uint64_t address = kPlace + kPage - 32;
  pages.add(address, 6000);  // chunk 6016: 40 bytes on the first page, 4096, 1880
  EXPECT_EQ(pages.page(kPlace).used, 40u);
  EXPECT_EQ(pages.page(kPlace).live, 32u);
  EXPECT_EQ(pages.page(kPlace + kPage).used, 4096u);
  EXPECT_EQ(pages.page(kPlace + kPage).live, 4096u);
  EXPECT_EQ(pages.page(kPlace + 2 * kPage).used, 1880u);
  EXPECT_EQ(pages.page(kPlace + 2 * kPage).live, 1872u);
  for (int i = 0; i < 3; i++) EXPECT_EQ(pages.page(kPlace + i * kPage).blocks, 1u);
}

TEST(PageMap, AFreeChunkNeeds48BytesBeforeItsFirstWholePage) {
  // Chunk ends at the page boundary minus 48, minus 32, and on it. The block is 16 bytes behind its chunk's begin.
  for (const auto& [gap, guarded] : {std::pair{48, false}, {32, true}, {16, true}, {0, true}}) {
    PageMap pages{HeapFacts{}};
    const std::uint64_t chunk = kPlace + kPage - static_cast<std::uint64_t>(gap) - 64;
    pages.add(chunk + 16, 56);
    EXPECT_EQ(pages.page(kPlace + kPage).held(), guarded) << gap;
    pages.remove(chunk + 16, 56);
    EXPECT_FALSE(pages.page(kPlace + kPage).held()) << gap;
  }
}

TEST(PageMap, CachedBlocksAreNoLongerLiveButStillHoldTheirPage) {
  PageMap pages{HeapFacts{}};
  pages.add(kPlace + 16, 100);
  pages.cache(kPlace + 16, 100);
  PageCounts page = pages.page(kPlace);
  EXPECT_EQ(page.blocks, 0u);
  EXPECT_EQ(page.used, 0u);
  EXPECT_EQ(page.live, 0u);
  EXPECT_EQ(page.cached, 112u);
  EXPECT_TRUE(page.held());
  EXPECT_EQ(pages.live_blocks(), 0u);
  pages.uncache(kPlace + 16, 112);
  EXPECT_EQ(pages.word(kPlace), 0u);
}

TEST(PageMap, OtherAllocatorsHaveNoHeadersThatWeKnow) {
  PageMap pages{other_allocator()};
  pages.add(kPlace, 100);
  EXPECT_EQ(pages.page(kPlace).used, 100u);
  EXPECT_EQ(pages.page(kPlace).live, 100u);
  EXPECT_EQ(pages.page(kPlace - 1).used, 0u);
  pages.add(kPlace + kPage - 8, 8);
  EXPECT_FALSE(pages.page(kPlace + kPage).held());
}

TEST(PageMap, RandomBlocksLeaveNoTraceWhenAllAreGone) {
  PageMap pages{HeapFacts{}};
  std::mt19937_64 random(1);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks;
  std::uint64_t at = kPlace + 16, bytes = 0;
  for (int i = 0; i < 20000; i++) {
    const std::uint64_t size = random() % (i % 100 == 0 ? 200000 : 3000);
    pages.add(at, size);
    blocks.emplace_back(at, size);
    at += model::glibc_chunk_bytes(size);
    bytes += size;
  }
  EXPECT_EQ(pages.live_blocks(), 20000u);
  EXPECT_EQ(pages.live_bytes(), bytes);
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (const auto& [address, size] : blocks) pages.remove(address, size);
  for (std::uint64_t page = kPlace; page < at + 2 * kPage; page += kPage) ASSERT_EQ(pages.word(page), 0u);
  EXPECT_EQ(pages.live_blocks(), 0u);
  EXPECT_TRUE(pages.large().empty());
}

TEST(PageMap, AnUntouchedGiantCostsNothing) {
  PageMap pages{HeapFacts{}};
  std::uint64_t before = allocated_bytes();
  pages.add(kPlace + 16, 1ull << 40);
  EXPECT_LT(allocated_bytes() - before, 1000u);
  trace::Snapshot snapshot;
  add_memory(snapshot, kPlace, (1ull << 28) + 1, "", {0, 5, 1ull << 20});
  before = allocated_bytes();
  {
    const model::Residency residency(snapshot);
    const model::LargeBlocksOnPages large(pages, residency);
    EXPECT_EQ(pages.page(kPlace).used, 4096u - 8);
    EXPECT_EQ(pages.page(kPlace + 5 * kPage).used, 4096u);
    EXPECT_EQ(pages.page(kPlace + 6 * kPage).used, 0u);
    EXPECT_EQ(pages.page(kPlace + (kPage << 20)).blocks, 1u);
    EXPECT_LT(allocated_bytes() - before, 1u << 20);
  }
  EXPECT_EQ(pages.word(kPlace), 0u);
  EXPECT_EQ(pages.word(kPlace + 5 * kPage), 0u);
}

TEST(PageMap, AddressesThatWanderDoNotPileUpMemory) {
  PageMap pages{HeapFacts{}};
  for (std::uint64_t i = 0; i < 5000; i++) {  // each in 64 MiB of its own, freed before the next
    pages.add(kPlace + i * PageMap::kLeafBytes + 16, 1000);
    pages.remove(kPlace + i * PageMap::kLeafBytes + 16, 1000);
  }
  EXPECT_LT(pages.memory_bytes(), 20u << 20);
}

TEST(PageMap, TakesAnyAddressOfADamagedTrace) {
  PageMap pages{HeapFacts{}};
  for (const std::uint64_t address : {0ull, 8ull, 1ull << 52, ~0ull - 15, 1ull << 63}) {
    pages.add(address, 40);
    pages.add(address, 1ull << 62);
    trace::Snapshot snapshot;
    const model::Residency residency(snapshot);
    const model::LargeBlocksOnPages large(pages, residency);
    pages.remove(address, 40);
  }
  EXPECT_EQ(pages.word(1ull << 52), 0u);
}

TEST(Residency, SaysUnknownOnlyWhereSomethingMayBeResident) {
  trace::Snapshot snapshot;
  add_memory(snapshot, kPlace, 4, "", {1, 3});
  snapshot.mappings.push_back(mapping(kPlace + 8 * kPage, kPlace + 9 * kPage, kPage));
  const model::Residency residency(snapshot);
  std::vector<std::uint64_t> seen;
  const auto visit = [&seen](std::uint64_t page) { seen.push_back((page - kPlace) / kPage); };
  EXPECT_TRUE(residency.for_each_resident(kPlace, kPlace + 8 * kPage, visit));  // a hole has nothing resident
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 3}));
  EXPECT_FALSE(residency.for_each_resident(kPlace, kPlace + 9 * kPage, visit));  // a mapping without page bits may
  seen.clear();
  EXPECT_TRUE(residency.for_each_resident(kPlace + 2 * kPage, kPlace + 4 * kPage, visit));
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{3}));
  EXPECT_EQ(residency.resident(kPlace), std::optional(false));
  EXPECT_EQ(residency.resident(kPlace + 3 * kPage + 17), std::optional(true));
  EXPECT_EQ(residency.resident(kPlace + 8 * kPage), std::nullopt);
}

}  // namespace
}  // namespace heapspy::test
