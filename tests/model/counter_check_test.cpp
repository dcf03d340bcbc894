// What threads of mode full counted of their calls, held against the events: a difference is a loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/model/heap_model.h"
#include "tests/support/trace_builder.h"

namespace heapspy::model {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two threads; each allocates 100 bytes three times, makes one block larger and frees one.
test::TraceBuilder two_threads() {
  test::TraceBuilder trace;
  for (std::uint32_t id = 1; id <= 2; id++) {
    auto& thread = trace.thread("a thread", 100 + id, id);
    thread.stamp(1000 + id);
    for (std::uint64_t i = 0; i < 3; i++) thread.malloc(id << 20 | i << 8, 100);
    thread.realloc(id << 20, id << 20 | 0x800, 200).free(id << 20 | 0x100);
  }
  return trace;
}

std::uint64_t& calls(format::ThreadCounters& counters, format::Call call) {
  return counters.calls[static_cast<std::size_t>(call)];
}

// What one of them counts.
format::ThreadCounters counted(std::uint32_t id) {
  format::ThreadCounters counters{};
  counters.thread = id;
  counters.tid = 100 + id;
  counters.threads = 1;
  calls(counters, format::Call::malloc) = 3;
  calls(counters, format::Call::reallocation) = 1;
  calls(counters, format::Call::free) = 1;
  counters.allocations[7] = 3;
  counters.bytes[7] = 300;
  counters.bytes[8] = 200;
  return counters;
}

struct Checked {
  explicit Checked(const test::TraceBuilder& trace) : file(trace.bytes()), reader(file.path()) { build_figures(reader); }
  std::vector<std::string> damage() const {
    std::vector<std::string> reasons;
    for (const trace::Damage& each : reader.damage()) reasons.push_back(each.reason);
    return reasons;
  }
  test::TemporaryFile file;
  trace::Reader reader;
};

TEST(Counters, ThatAgreeWithTheEventsAreNoLoss) {
  const Checked checked(two_threads().counters(counted(1)).counters(counted(2)));
  EXPECT_EQ(checked.reader.counters().size(), 2u);
  EXPECT_EQ(checked.reader.lost_events(), 0u);
  EXPECT_THAT(checked.damage(), IsEmpty());
}

TEST(Counters, ThatSayMoreThanTheEventsAreALossOfSoMany) {
  format::ThreadCounters first = counted(1), second = counted(2);
  first.allocations[7] += 2;  // of 64 to 127 bytes
  first.allocations[3] += 1;
  calls(second, format::Call::reallocation) += 4;
  calls(second, format::Call::free) += 8;
  const Checked checked(two_threads().counters(first).counters(second));
  EXPECT_EQ(checked.reader.lost_events(), 15u);
  EXPECT_THAT(checked.damage(), ElementsAre("the threads counted 15 calls that are not in the trace"));
}

TEST(Counters, ThatSayLessAreThoseOfAProcessThatWasKilledBeforeItCounted) {
  format::ThreadCounters first = counted(1);
  first.allocations[7]--;
  const Checked checked(two_threads().counters(first).counters(counted(2)));
  EXPECT_EQ(checked.reader.lost_events(), 0u);
}

TEST(Counters, OfThreadsThatEndedLongAgoAreHeldAgainstTheSumOfTheirEvents) {
  format::ThreadCounters ended = counted(format::kEndedThreads);
  EXPECT_EQ(Checked(two_threads().counters(counted(1)).counters(ended)).reader.lost_events(), 0u);
  ended.allocations[7] += 5;
  EXPECT_EQ(Checked(two_threads().counters(counted(1)).counters(ended)).reader.lost_events(), 5u);
}

TEST(Counters, AThreadThatHasNoneHidesNoOthersLoss) {
  format::ThreadCounters first = counted(1);
  EXPECT_EQ(Checked(two_threads().counters(first)).reader.lost_events(), 0u);
  first.allocations[7] += 3;
  EXPECT_EQ(Checked(two_threads().counters(first)).reader.lost_events(), 3u);
}

}  // namespace
}  // namespace heapspy::model
