// What a stream says of the stacks of its allocations, and what it leaves unsaid.
#include "analyzer/trace/stacks_said.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace heapspy::trace {
namespace {

using ::testing::ElementsAre;

// The recorder's side of it (preload/src/stacked_log.cpp).
struct Writer {
  format::FollowedStacks followed;
  std::uint32_t last = 0;
  bool forgotten = true;
  std::size_t words = 0;

  void tell(StacksSaid& to, std::uint32_t stack) {
    const std::uint32_t before = last;
    last = stack;
    if (forgotten) {
      forgotten = false;
      followed.forget();
      words++;
      return to.is(stack);
    }
    if (followed.after(before) == stack) return;
    followed.note(before, stack);
    words++;
    to.is_next(stack);
  }
};

TEST(StacksSaid, OfKindStackHoldUntilTheNext) {
  StacksSaid said;
  said.is(5);
  const std::uint32_t first = said.next(), second = said.next();
  said.is(7);
  EXPECT_THAT((std::vector{first, second, said.next(), said.next()}), ElementsAre(5u, 5u, 7u, 7u));
}

TEST(StacksSaid, ACycleIsSaidOnce) {
  StacksSaid said;
  Writer writer;
  for (int turn = 0; turn < 100; turn++)
    for (std::uint32_t stack = 1; stack <= 7; stack++) {
      writer.tell(said, stack);
      ASSERT_EQ(said.next(), stack) << turn;
    }
  EXPECT_EQ(writer.words, 8u);  // the first, and what follows each of the seven
}

TEST(StacksSaid, BothEndsAgreeWhateverComes) {
  std::uint64_t random = 88172645463325252ull;
  const auto below = [&](std::uint64_t limit) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    return static_cast<std::uint32_t>(random % limit);
  };
  StacksSaid said;
  Writer writer;
  for (int i = 0; i < 200000; i++) {
    if (below(40) == 0) writer.forgotten = true;
    const std::uint32_t stack = below(8) ? below(6) : below(1u << 22);
    writer.tell(said, stack);
    ASSERT_EQ(said.next(), stack) << i;
  }
}

TEST(StacksSaid, AfterALossOnlyWhatIsSaidIsKnownUntilAllIsSaidAgain) {
  StacksSaid said;
  said.is(1);
  said.is_next(2);
  said.next();
  said.is_next(1);
  said.next();
  said.lose();
  EXPECT_EQ(said.next(), 0u);
  said.is_next(9);
  EXPECT_EQ(said.next(), 9u);
  EXPECT_EQ(said.next(), 0u);
  said.is(4);
  EXPECT_EQ(said.next(), 4u);
  EXPECT_EQ(said.next(), 4u);
}

TEST(StacksSaid, NumbersThatNoTableHasAreUnknown) {
  StacksSaid said;
  said.is(1ull << 40);
  EXPECT_EQ(said.next(), 0u);
  said.is_next((1ull << 32) + 5);
  EXPECT_EQ(said.next(), 0u);
}

}  // namespace
}  // namespace heapspy::trace
