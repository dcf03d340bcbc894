#include "analyzer/trial/replayer/window_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace heapspy::test {
namespace {

using trial::Operation;
using trial::Play;
using trial::Window;
using trial::WindowPlan;

// Operations as the writer would number them.
class Program {
 public:
  Program& add(Play play, std::uint32_t thread, std::uint32_t slot = 0, std::uint64_t time_us = 0) {
    Operation operation{};
    operation.play = play;
    operation.thread = thread;
    operation.slot = slot;
    operation.time_us = time_us;
    if (play < Play::thread_end && play != Play::end) {
      const auto [before, first] = latest_.try_emplace(slot, operations.size());
      const std::size_t ago = operations.size() - before->second;
      operation.since = first || ago > UINT16_MAX ? 0 : static_cast<std::uint16_t>(ago);
      before->second = operations.size();
    }
    operations.push_back(operation);
    return *this;
  }

  struct Played {
    std::uint64_t window;
    std::uint32_t place;  // within the thread's part
  };
  // When each operation is played; that of one window come in an order within their thread only.
  std::vector<Played> plan(std::uint32_t threads) {
    add(Play::end, 0);
    std::vector<Played> played(operations.size(), {~0ull, 0});
    WindowPlan plan;
    plan.begin(operations.data(), threads);
    for (std::uint64_t number = 0;; number++) {
      const Window& window = plan.next();
      for (std::uint32_t i = 0; i < window.threads; i++) {
        const Window::Part part = window.parts[window.who[i]];
        for (std::uint32_t at = part.from; at < part.to; at++) {
          const std::uint64_t operation = window.base + window.order[at];
          EXPECT_EQ(played[operation].window, ~0ull) << operation << " is played twice";
          EXPECT_EQ(operations[operation].thread, window.who[i]);
          played[operation] = {number, at - part.from};
        }
      }
      windows = number + 1;
      if (window.is_last) break;
      if (number > 2 * operations.size()) {
        ADD_FAILURE() << "it does not come to an end";
        break;
      }
    }
    return played;
  }

  std::vector<Operation> operations;
  std::uint64_t windows = 0;

 private:
  std::map<std::uint32_t, std::size_t> latest_;
};

TEST(WindowPlan, PutsOffWhatAnotherThreadMustDoFirst) {
  Program program;
  program.add(Play::malloc, 0, 7).add(Play::malloc, 1, 8).add(Play::free, 1, 7).add(Play::malloc, 1, 9);
  const auto played = program.plan(2);
  EXPECT_EQ(program.windows, 2u);
  EXPECT_EQ(played[2].window, 1u);
  for (const int at : {0, 1, 3}) EXPECT_EQ(played[at].window, 0u) << at;
}

TEST(WindowPlan, EndsAWindowWhereSomethingWouldBePutOffTwice) {
  Program program;
  program.add(Play::malloc, 0, 7).add(Play::realloc, 1, 7).add(Play::realloc, 0, 7).add(Play::free, 1, 7);
  const auto played = program.plan(2);
  for (std::size_t at = 1; at < 4; at++) EXPECT_GT(played[at].window, played[at - 1].window) << at;
}

TEST(WindowPlan, PlaysWhatBelongsToAnotherTimeInAnotherWindow) {
  Program program;
  for (std::uint64_t i = 0; i < 10; i++) program.add(Play::malloc, 0, static_cast<std::uint32_t>(i), i * 600);
  program.plan(1);
  EXPECT_EQ(program.windows, 5u);  // two in each 1000 us
}

// Every kind of operation on few slots by many threads that come and go.
TEST(WindowPlan, KeepsTheOrderOfEachBlockAndEndsAThreadBehindAllThatItDoes) {
  for (unsigned seed = 1; seed <= 20; seed++) {
    std::mt19937 random(seed);
    const std::uint32_t threads = 1 + seed % 7, slots = seed % 3 ? 50 : 5000;
    Program program;
    std::vector<std::uint64_t> begun(threads, 0);  // of each thread's life: its number among all of its place
    std::vector<std::uint64_t> life;               // of each operation
    for (int i = 0; i < 30'000; i++) {
      const std::uint32_t thread = random() % threads, slot = random() % slots;
      life.push_back(begun[thread]);
      if (thread && random() % 300 == 0) {
        program.add(Play::thread_end, thread, 0, i / 10);
        begun[thread]++;
      } else {
        program.add(random() % 2 ? Play::malloc : Play::free, thread, slot, i / 10);
      }
    }
    const auto played = program.plan(threads);
    std::map<std::uint32_t, std::size_t> of_slot;
    std::vector<std::size_t> end_of(threads, SIZE_MAX);
    for (std::size_t i = 0; i + 1 < program.operations.size(); i++) {
      const Operation& operation = program.operations[i];
      ASSERT_NE(played[i].window, ~0ull) << i << " is never played";
      const auto comes_after = [&](std::size_t before) {
        if (played[i].window != played[before].window) return played[i].window > played[before].window;
        return operation.thread == program.operations[before].thread && played[i].place > played[before].place;
      };
      if (operation.play != Play::thread_end) {
        const auto [before, first] = of_slot.try_emplace(operation.slot, i);
        ASSERT_TRUE(first || comes_after(before->second)) << i << " and " << before->second << ", seed " << seed;
        before->second = i;
      }
      std::size_t& end = end_of[operation.thread];
      if (end != SIZE_MAX) {
        // Of the next life of this place: in a later window than the end of the one before.
        ASSERT_GT(played[i].window, played[end].window) << i << ", seed " << seed;
      }
      if (operation.play == Play::thread_end) {
        for (std::size_t j = i; j-- > 0 && i - j < 2000;)
          if (program.operations[j].thread == operation.thread) {
            ASSERT_TRUE(comes_after(j)) << i << " and " << j << ", seed " << seed;
          }
        end = i;
      }
    }
  }
}

}  // namespace
}  // namespace heapspy::test
