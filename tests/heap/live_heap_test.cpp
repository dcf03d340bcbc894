// The walk of a live process against what its malloc says of itself, and the predicted trim against a real one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>

#include "analyzer/heap/trim_prediction.h"
#include "analyzer/process/borrowed_thread.h"
#include "analyzer/process/exported_symbol.h"
#include "analyzer/report/inspection.h"
#include "tests/heap/victim.h"
#include "tests/process_room/forked_child.h"
#include "tests/support/amounts.h"

namespace heapspy::heap_test {
namespace {

using test::kMiB;

using report::InspectedArena;
using report::Inspection;

class LiveHeap : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_trace()) GTEST_SKIP() << "this process may not stop others";
  }
};

Inspection inspected(const Victim& victim) {
  const process::LiveProcess target(victim.pid());
  return report::inspect_process(target);
}

void expect_proven(const Inspection& inspection) {
  ASSERT_TRUE(inspection.heap);
  for (const heap::Check& check : inspection.heap->checks) EXPECT_TRUE(check.ok) << check.name << ": " << check.detail;
  EXPECT_TRUE(inspection.heap->layout_sure);
}

// malloc_info: of each arena, in the order of the ring. Its bins' bytes are too high by one per chunk (they are summed with
// the flags), its `rest` holds the top chunk too.
void expect_as_malloc_info(const Inspection& inspection, const Truth& truth) {
  const heap::TakenApart& apart = *inspection.heap;
  ASSERT_EQ(apart.copy.arenas.size(), truth.arenas.size());
  for (std::size_t i = 0; i < truth.arenas.size(); i++) {
    SCOPED_TRACE(i);
    const heap::ChunkSums& sums = apart.account.arenas[i].chunks;
    const ArenaTruth& arena = truth.arenas[i];
    EXPECT_EQ(sums.blocks(heap::ChunkKind::fast), arena.fast_chunks);
    EXPECT_EQ(sums.of(heap::ChunkKind::fast), arena.fast_bytes);
    std::uint64_t chunks = 0, bytes = 0;
    for (const heap::ChunkKind kind : {heap::ChunkKind::unsorted, heap::ChunkKind::small, heap::ChunkKind::large}) {
      chunks += sums.blocks(kind);
      bytes += sums.of(kind);
    }
    EXPECT_EQ(chunks + 1, arena.rest_chunks);
    EXPECT_EQ(bytes + chunks + sums.of(heap::ChunkKind::top), arena.rest_bytes);
    EXPECT_EQ(apart.account.arenas[i].system_bytes, arena.system_bytes);
    EXPECT_EQ(apart.account.arenas[i].held_bytes, arena.system_bytes);
    if (i) {
      EXPECT_EQ(apart.account.arenas[i].heaps, arena.heaps);
    }
  }
}

// mallinfo2: sums over all arenas; what threads have cached is in use to it, and so is malloc_state.
void expect_as_mallinfo(const Inspection& inspection, const Truth& truth) {
  if (!truth.totals) return;
  const heap::TakenApart& apart = *inspection.heap;
  std::uint64_t system = 0, in_use = 0, free = 0;
  for (const heap::ArenaAccount& arena : apart.account.arenas) {
    const std::uint64_t cached = arena.chunks.of(heap::ChunkKind::cached);
    system += arena.system_bytes;
    in_use += arena.chunks.in_use() + cached;
    free += arena.chunks.free() - cached;
  }
  EXPECT_EQ(system, truth.arena);
  EXPECT_EQ(in_use, truth.in_use);
  EXPECT_EQ(free, truth.free);
  EXPECT_EQ(apart.account.arenas[0].chunks.of(heap::ChunkKind::top), truth.top);
  EXPECT_EQ(apart.account.mapped.blocks, truth.mapped_blocks);
  EXPECT_EQ(apart.account.mapped.bytes, truth.mapped_bytes);
}

void expect_parts_sum(const Inspection& inspection) {
  for (const InspectedArena& arena : inspection.arenas) {
    ASSERT_TRUE(arena.resident_bytes && arena.in_use_resident_bytes && arena.trimmable_bytes);
    EXPECT_EQ(*arena.in_use_resident_bytes + *arena.trimmable_bytes + *arena.pinned_bytes + *arena.cached_bytes,
              *arena.resident_bytes);
    if (arena.kind == "mmapped") continue;
    EXPECT_EQ(*arena.in_use_bytes + *arena.top_bytes + *arena.tcache_bytes + *arena.fastbin_bytes + *arena.unsorted_bytes +
                  *arena.small_bytes + *arena.large_bytes,
              *arena.system_bytes);
  }
  std::uint64_t parts = 0;
  for (const report::PartReport& part : inspection.rss.parts) parts += part.bytes;
  EXPECT_EQ(parts, inspection.rss.total_bytes);
  for (const heap::RegionAccount& region : inspection.heap->account.regions) {
    const auto& pinned = region.pinned_by_chunk;
    EXPECT_EQ(std::accumulate(pinned.begin(), pinned.end(), std::uint64_t{0}), region.resident->pinned);
  }
}

class HeapOfThreads : public LiveHeap, public testing::WithParamInterface<int> {};

TEST_P(HeapOfThreads, IsWhatMallocSaysOfIt) {
  const Victim victim("mixed", GetParam());
  const Inspection inspection = inspected(victim);
  expect_proven(inspection);
  expect_as_malloc_info(inspection, victim.truth());
  expect_as_mallinfo(inspection, victim.truth());
  expect_parts_sum(inspection);
}
INSTANTIATE_TEST_SUITE_P(Threads, HeapOfThreads, testing::Values(0, 1, 8, 64));

struct Shape {
  const char* name;
  std::uint64_t at_least;  // returned bytes: that the shape is what it is meant to be
  std::uint64_t at_most;
};
class Trim : public LiveHeap, public testing::WithParamInterface<Shape> {};

TEST_P(Trim, ReturnsWhatWasPredictedToTheByte) {
  const Shape& shape = GetParam();
  Victim victim(shape.name);
  const Inspection before = inspected(victim);
  expect_proven(before);
  expect_parts_sum(before);
  const std::uint64_t resident = victim.anonymous_bytes();
  victim.trim();
  const std::uint64_t returned = resident - victim.anonymous_bytes();
  ASSERT_TRUE(before.trim_prediction_bytes);
  EXPECT_EQ(*before.trim_prediction_bytes, returned);
  EXPECT_GE(returned, shape.at_least);
  EXPECT_LE(returned, shape.at_most);
  EXPECT_EQ(inspected(victim).trim_prediction_bytes, 0u);
}
// By a thread of its own, borrowed, instead of by itself.
TEST_P(Trim, FromOutsideReturnsWhatWasPredictedToTheByte) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "threads are borrowed on x86-64 only";
#endif
  const Victim victim(GetParam().name);
  const Inspection before = inspected(victim);
  ASSERT_TRUE(before.heap && before.trim_prediction_bytes);
  const heap::ArenaRing& ring = before.heap->copy.ring;
  const process::LiveProcess target(victim.pid());
  const auto maps = process::parse_mappings(target.text("maps"));
  const process::Mapping* first = process::first_mapping_of(maps.mappings, ring.library, ring.segment_start);
  ASSERT_NE(first, nullptr);
  const auto trim = process::exported_function(target, first->start, "malloc_trim");
  ASSERT_TRUE(trim);
  process::BorrowedThread thread(target, ring.library, std::chrono::minutes(1));
  const std::uint64_t resident = victim.anonymous_bytes();
  const process::CallOutcome call = thread.call(*trim, 0, true, std::chrono::minutes(1));
  EXPECT_EQ(resident - victim.anonymous_bytes(), *before.trim_prediction_bytes);
  thread.give_back();
  // Of free chunks; a top chunk leaves by brk.
  EXPECT_LE(*call.madvise_calls, heap::predict_trim(before.heap->copy, before.heap->walk).size());
  EXPECT_EQ(*call.madvise_calls > 0, *before.trim_prediction_bytes > 0 && GetParam().name != std::string("main_top"));
  EXPECT_EQ(inspected(victim).trim_prediction_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Trim,
                         testing::Values(Shape{"pinned_top", 45 * kMiB, 60 * kMiB}, Shape{"random", 10 * kMiB, 30 * kMiB},
                                         Shape{"arenas", 10 * kMiB, 40 * kMiB}, Shape{"fast_bins", kMiB, 8 * kMiB},
                                         Shape{"every_64th", 15 * kMiB, 25 * kMiB}, Shape{"secondary_top", 0, 0},
                                         Shape{"main_top", 8 * kMiB, 10 * kMiB}, Shape{"mixed", 0, kMiB}),
                         [](const auto& of) { return std::string(of.param.name); });

TEST_F(LiveHeap, SecondaryTopsAreNamedAsWhatNoTrimReturns) {
  const Victim victim("secondary_top");
  const Inspection inspection = inspected(victim);
  const auto tops = inspection.sum(&InspectedArena::secondary_top_bytes);
  ASSERT_TRUE(tops);
  EXPECT_GE(*tops, 8 * kMiB);
  EXPECT_EQ(inspection.trim_prediction_bytes, 0u);
}

TEST_F(LiveHeap, ThePlugOfAPinnedHeapIsTheBlockThatPinsIt) {
  const Victim victim("pinned_top");
  const Inspection inspection = inspected(victim);
  ASSERT_FALSE(inspection.arenas.empty());
  ASSERT_TRUE(inspection.arenas[0].plug);
  EXPECT_EQ(inspection.arenas[0].plug->bytes, 32u);  // malloc(1)
  EXPECT_GE(inspection.arenas[0].plug->free_below_bytes.value_or(0), 45 * kMiB);
}

// Kept blocks too large for thread caches, each behind free ones.
TEST_F(LiveHeap, WhatATrimReturnsWithoutSomeBlocksIsWhatItReturnsWhenTheyAreFreed) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the victim is a fork of this program, whose allocator is AddressSanitizer's";
#endif
  constexpr int kBlocks = 4000;
  void** kept =
      static_cast<void**>(::mmap(nullptr, kBlocks * sizeof(void*), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  int orders[2], answers[2];
  ASSERT_EQ(::pipe(orders), 0);
  ASSERT_EQ(::pipe(answers), 0);
  process_test::ForkedChild child(
      [kept] {
        static void* freed[kBlocks];
        for (int i = 0; i < kBlocks; i++) {
          freed[i] = std::memset(std::malloc(5000), 1, 5000);
          kept[i] = std::memset(std::malloc(1500), 1, 1500);
        }
        static void* last = std::malloc(5000);  // what is freed must not become the top, which free() returns by itself
        std::memset(last, 1, 5000);
        for (void* each : freed) std::free(each);
      },
      [&] {
        char byte;
        if (::read(orders[0], &byte, 1) != 1) return;
        for (int i = 0; i < kBlocks; i++) std::free(kept[i]);
        if (::write(answers[1], "f", 1) != 1) return;
        for (;;) ::pause();
      });
  const process::LiveProcess target(child.pid());
  const Inspection before = report::inspect_process(target);
  ASSERT_TRUE(before.heap && before.trim_prediction_bytes);
  const std::vector<heap::Chunk>& chunks = before.heap->walk.chunks;
  std::vector<bool> gone(chunks.size());
  const std::set<std::uint64_t> blocks = [&] {
    std::set<std::uint64_t> all;
    for (int i = 0; i < kBlocks; i++) all.insert(reinterpret_cast<std::uint64_t>(kept[i]));
    return all;
  }();
  for (std::size_t i = 0; i < chunks.size(); i++) gone[i] = blocks.contains(chunks[i].block());
  const std::uint64_t more = heap::returned_without(*before.heap, gone);
  EXPECT_GE(more, 4 << 20);
  char byte;
  ASSERT_EQ(::write(orders[1], "o", 1), 1);
  ASSERT_EQ(::read(answers[0], &byte, 1), 1);
  EXPECT_EQ(report::inspect_process(target).trim_prediction_bytes, *before.trim_prediction_bytes + more);
  ::munmap(kept, kBlocks * sizeof(void*));
}

TEST_F(LiveHeap, EachThreadHasItsArenaAndItsCache) {
  const Victim victim("mixed", 4);
  const Inspection inspection = inspected(victim);
  ASSERT_EQ(inspection.threads.size(), 5u);
  std::uint64_t cached = 0;
  std::vector<std::uint64_t> arenas;
  for (const report::InspectedThread& thread : inspection.threads) {
    ASSERT_TRUE(thread.arena && thread.cached_bytes);
    arenas.push_back(*thread.arena);
    cached += *thread.cached_bytes;
  }
  std::sort(arenas.begin(), arenas.end());
  EXPECT_EQ(std::unique(arenas.begin(), arenas.end()), arenas.end());
  EXPECT_EQ(inspection.sum(&InspectedArena::tcache_bytes), cached);
}

TEST_F(LiveHeap, WhatAThreadThatEndedHadCachedIsInNoCache) {
  const Victim victim("ended");
  const Inspection inspection = inspected(victim);
  expect_proven(inspection);
  expect_as_malloc_info(inspection, victim.truth());
  expect_as_mallinfo(inspection, victim.truth());
  expect_parts_sum(inspection);
  ASSERT_TRUE(inspection.heap);
  const heap::GlibcLayout& layout = inspection.heap->walk.layout;
  if (layout.cache_key == heap::GlibcLayout::CacheKey::random && layout.fast_bins) {
    EXPECT_EQ(inspection.heap->walk.keys_left_over, 5u);  // one of each size
  }
  std::uint64_t cached = 0;
  for (const heap::ThreadCache& cache : inspection.heap->walk.caches) cached += cache.bytes;
  EXPECT_EQ(inspection.sum(&InspectedArena::tcache_bytes), cached);
}

TEST_F(LiveHeap, ItsMappedBlocksAreFoundWhateverTheirAlignment) {
  const Victim victim("mixed");
  const Inspection inspection = inspected(victim);
  const InspectedArena& mapped = inspection.arenas.back();
  EXPECT_EQ(mapped.kind, "mmapped");
  EXPECT_EQ(mapped.blocks, 4u);
  EXPECT_LT(*mapped.resident_bytes, *mapped.system_bytes);  // one of them was never touched
}

// As in a JVM's metaspace: 0 and a size with malloc's bit at the beginning of a page, and blocks behind it in the same mapping.
TEST_F(LiveHeap, WhatLooksLikeAMappedBlockInMemoryOfTheProgramIsNotTakenForOne) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the victim is a fork of this program, whose allocator is AddressSanitizer's";
#endif
  constexpr std::uint64_t kOwn = 64 * 4096, kFalse = 3 * 4096;
  auto* placed = static_cast<bool*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  process_test::ForkedChild child([&] {
    static char* block = static_cast<char*>(std::malloc(40u << 20));  // beyond any threshold
    char* const start = block - heap::kChunkHeaderBytes - kOwn;
    void* own = ::mmap(start, kOwn, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    *placed = own == start;
    if (!*placed) return;
    std::memset(own, 1, kOwn);
    const std::uint64_t header[2] = {0, 0x5000 | heap::kMapped};
    std::memcpy(static_cast<char*>(own) + kFalse, header, sizeof header);
  });
  if (!*placed) GTEST_SKIP() << "there is no room below the block";
  const process::LiveProcess target(child.pid());
  const Inspection inspection = report::inspect_process(target);
  ASSERT_TRUE(inspection.heap);
  for (const heap::Check& check : inspection.heap->checks) EXPECT_TRUE(check.ok) << check.name << ": " << check.detail;
  EXPECT_GE(inspection.heap->account.mapped.bytes, 40u << 20);
}

TEST_F(LiveHeap, ReadingItLeavesItsMemoryAsItWas) {
  const Victim victim("mixed", 2);
  inspected(victim);  // the first look may fault in a page of code
  const std::uint64_t before = victim.anonymous_bytes();
  const auto rss = inspected(victim).rss.total_bytes;
  EXPECT_EQ(inspected(victim).rss.total_bytes, rss);
  EXPECT_EQ(victim.anonymous_bytes(), before);
}

TEST_F(LiveHeap, UnderASmallArenaLimitManyThreadsShareArenas) {
  const Victim victim("mixed", 16, {"MALLOC_ARENA_MAX=3"});
  const Inspection inspection = inspected(victim);
  expect_proven(inspection);
  expect_as_malloc_info(inspection, victim.truth());
  EXPECT_EQ(inspection.heap->copy.arenas.size(), 3u);
  EXPECT_EQ(inspection.heap->copy.parameters->arena_max, 3u);
}

TEST_F(LiveHeap, WithHeapsOfHugePagesIsReadAtTheirSize) {
  const Victim victim("mixed", 4, {"GLIBC_TUNABLES=glibc.malloc.hugetlb=2"});
  const Inspection inspection = inspected(victim);
  expect_as_malloc_info(inspection, victim.truth());
  expect_proven(inspection);
}

TEST_F(LiveHeap, OfAProcessThatNeverAllocatedIsEmpty) {
  const Victim victim("nothing");
  const Inspection inspection = inspected(victim);
  EXPECT_TRUE(inspection.arenas.empty());
  EXPECT_EQ(inspection.trim_prediction_bytes, 0u);
  EXPECT_GT(inspection.rss.total_bytes.value_or(0), 0u);
  EXPECT_FALSE(inspection.kinds.empty());
}

TEST_F(LiveHeap, OfAStoppedProcessIsReadAndItStaysStopped) {
  const Victim victim("mixed", 2);
  ::kill(victim.pid(), SIGSTOP);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(victim.pid()), &info, WSTOPPED), 0);
  expect_proven(inspected(victim));
  // On its way back into the stop a thread is shown as running for a moment; it runs no code of its own.
  while (process::LiveProcess(victim.pid()).status().state != 'T') ::sched_yield();
  ::kill(victim.pid(), SIGCONT);
}

TEST_F(LiveHeap, IsProvenAgainAndAgainOfAProcessThatRuns) {
  const Victim victim("busy", 4);
  for (int i = 0; i < 10; i++) {
    const Inspection inspection = inspected(victim);
    ASSERT_TRUE(inspection.heap);
    for (const heap::Check& check : inspection.heap->checks) EXPECT_TRUE(check.ok) << check.name << ": " << check.detail;
    expect_parts_sum(inspection);
  }
}

}  // namespace
}  // namespace heapspy::heap_test
