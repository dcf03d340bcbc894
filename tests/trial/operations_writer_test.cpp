#include "analyzer/trial/operations_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/model/world.h"

namespace heapspy::test {
namespace {

using trial::kTouchAll;
using trial::Operation;
using trial::OperationsHeader;
using trial::OperationsWriter;
using trial::Play;
using trial::Touch;

class Operations : public testing::Test {
 protected:
  std::string path = testing::TempDir() + "heapspy-operations-" + std::to_string(getpid());
  const trace::Clock clock;  // a tick is a nanosecond
  std::optional<OperationsWriter> writer;
  World world;

  void begin(Touch touch = Touch::recorded) {
    writer.emplace(path, clock, touch);
    world.watch(&*writer);
  }
  std::vector<Operation> finish(OperationsHeader* header = nullptr) {
    writer->finish(world.now);
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    OperationsHeader found{};
    std::memcpy(&found, bytes.data(), sizeof found);
    std::vector<Operation> operations((bytes.size() - sizeof found) / sizeof(Operation));
    std::memcpy(operations.data(), bytes.data() + sizeof found, operations.size() * sizeof(Operation));
    EXPECT_EQ(found.operations, operations.size());
    if (header) *header = found;
    return operations;
  }
  void TearDown() override { std::remove(path.c_str()); }
};

TEST_F(Operations, AreTheCallsInTheirOrderWithSlotsThatAreUsedAgain) {
  begin();
  world.allocate(7, 0x1000, 100);
  world.allocate(7, 0x2000, 40, trace::Origin::calloc);
  world.free(7, 0x1000);
  world.allocate(9, 0x3000, 64, trace::Origin::aligned);
  world.reallocate(9, 0x2000, 0x5000, 80);
  world.free(7, 0x5000);
  OperationsHeader header;
  const std::vector<Operation> all = finish(&header);
  ASSERT_EQ(all.size(), 7u);
  EXPECT_EQ(header.slots, 2u);
  EXPECT_EQ(header.threads, 2u);
  const Play plays[] = {Play::malloc, Play::calloc, Play::free, Play::aligned, Play::realloc, Play::free, Play::end};
  const std::uint32_t slots[] = {0, 1, 0, 0, 1, 1, 0}, threads[] = {0, 0, 0, 1, 1, 0, 0};
  const std::uint64_t sizes[] = {100, 40, 0, 64, 80, 0, 0};
  for (std::size_t i = 0; i < all.size(); i++) {
    EXPECT_EQ(all[i].play, plays[i]) << i;
    EXPECT_EQ(all[i].slot, slots[i]) << i;
    EXPECT_EQ(all[i].thread, threads[i]) << i;
    EXPECT_EQ(all[i].size, sizes[i]) << i;
  }
  EXPECT_EQ(all[3].log2_alignment, 12) << "the address was 0x3000";
}

TEST_F(Operations, OfAThreadThatEndedGiveItsPlaceToTheNext) {
  begin();
  world.allocate(1, 0x1000, 1);
  for (std::uint32_t thread = 2; thread < 100; thread++) {
    world.allocate(thread, 0x2000, 1);
    world.free(thread, 0x2000);
    writer->thread_ended(ThreadId{thread}, world.now);
  }
  OperationsHeader header;
  const std::vector<Operation> all = finish(&header);
  EXPECT_EQ(header.threads, 2u);
  EXPECT_EQ(all[3].play, Play::thread_end);
  EXPECT_EQ(all[3].thread, 1u);
}

TEST_F(Operations, AreWhatTheProgramSetByMalloptToo) {
  begin();
  world.allocate(1, 0x1000, 1);
  writer->marked(ThreadId{1}, "mallopt(M_ARENA_MAX, 2)", world.now);
  writer->marked(ThreadId{1}, "cache filled", world.now);
  const std::vector<Operation> all = finish();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].play, Play::mallopt);
  EXPECT_EQ(static_cast<std::int32_t>(all[1].slot), -8);
  EXPECT_EQ(all[1].size, 2u);
  EXPECT_EQ(writer->calls(), 1u);
}

TEST_F(Operations, LeaveOutWhatNobodyKnows) {
  begin();
  world.allocate(1, 0x1000, 1);
  writer->unknown_release(ThreadId{1}, 0x9000, trace::Release::free, false, world.now);
  EXPECT_EQ(finish().size(), 2u);
  EXPECT_EQ(writer->left_out(), 1u);
}

TEST_F(Operations, WriteThePagesOfLargeBlocksThatSnapshotsSawInRam) {
  begin();
  world.allocate(1, 0x10000, 16384);  // four whole pages, of which one is in RAM
  world.allocate(1, 0x20000, 4000);
  trace::Snapshot snapshot;
  snapshot.resident.push_back({0x10000, 16, format::Residency::bitmap, {0b0010}});
  writer->snapshot_taken(snapshot);
  world.allocate(1, 0x30000, 16384);    // of the same size: as that one
  world.allocate(1, 0x40000, 20000);    // of the same power of two: as much of it, one page of four
  world.allocate(1, 0x80000, 1 << 20);  // none such was seen
  const std::vector<Operation> all = finish();
  EXPECT_EQ(all[0].touch_pages, 1u);
  EXPECT_EQ(all[1].touch_pages, kTouchAll);
  EXPECT_EQ(all[2].play, Play::measure);
  EXPECT_EQ(all[3].touch_pages, 1u);
  EXPECT_EQ(all[4].touch_pages, 1u);
  EXPECT_EQ(all[5].touch_pages, kTouchAll);
}

TEST_F(Operations, WriteThePagesThatTheTraceTells) {
  begin();
  world.allocate(1, 0x10000, 16384);
  world.allocate(1, 0x20000, 16384);
  world.allocate(2, 0x30000, 16384);
  writer->touched(ThreadId{1}, 0x10000, 2);
  world.free(1, 0x10000);
  writer->touched(ThreadId{2}, 0x20000, 1);  // of another block than it frees next: nothing is said of that one
  world.free(2, 0x30000);
  writer->touched(ThreadId{1}, 0x20000, 99);  // no more than there are
  world.reallocate(1, 0x20000, 0x40000, 8192);
  const std::vector<Operation> all = finish();
  EXPECT_TRUE(writer->touch_is_told());
  EXPECT_EQ(all[0].touch_pages, 2u);
  EXPECT_EQ(all[1].touch_pages, trial::kTouchEach);
  EXPECT_EQ(all[2].touch_pages, 3u) << "the mean of the others of its size";
  EXPECT_EQ(all[1].since, 0u);
  EXPECT_EQ(all[5].since, 4u) << "the realloc is the second on its slot";
}

TEST_F(Operations, LeaveOutTheTimeOfSnapshotsThatTheProgramWaitedFor) {
  begin();
  const auto snapshot = [&](trace::Tick from, trace::Tick to, format::SnapshotReason reason = format::SnapshotReason::peak) {
    trace::Snapshot taken;
    taken.begin = from, taken.end = to, taken.reason = reason;
    writer->snapshot_taken(taken);
  };
  world.now = 2'000'000;
  world.allocate(1, 0x1000, 1);
  snapshot(3'000'000, 8'000'000);  // by the one thread itself
  world.now = 6'000'000;           // its stamp is between two that stand before and after: not later than the snapshot began
  world.allocate(1, 0x2000, 1);
  world.now = 9'000'000;
  world.allocate(1, 0x3000, 1);
  snapshot(10'000'000, 12'000'000);
  world.now = 13'000'000;
  world.allocate(2, 0x4000, 1);
  snapshot(14'000'000, 20'000'000);  // beside two threads
  world.now = 21'000'000;
  world.allocate(2, 0x5000, 1);
  snapshot(22'000'000, 30'000'000, format::SnapshotReason::exit);
  world.now = 31'000'000;
  const std::vector<Operation> all = finish();
  const std::uint64_t times[] = {2'000, 3'000, 3'000, 4'000, 5'000, 6'000, 7'000, 14'000, 15'000, 16'000};
  ASSERT_EQ(all.size(), std::size(times));
  for (std::size_t i = 0; i < all.size(); i++) EXPECT_EQ(all[i].time_us, times[i]) << i;
  EXPECT_EQ(writer->duration_us(), 16'000u);
}

TEST_F(Operations, TouchNothingOfLargeBlocksWhenAskedTo) {
  begin(Touch::none);
  world.allocate(1, 0x10000, 16384);
  world.allocate(1, 0x20000, 100);
  const std::vector<Operation> all = finish();
  EXPECT_EQ(all[0].touch_pages, 0u);
  EXPECT_EQ(all[1].touch_pages, kTouchAll);
}

}  // namespace
}  // namespace heapspy::test
