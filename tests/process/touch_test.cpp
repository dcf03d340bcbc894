// HEAPSPY_TOUCH=on: which pages of large blocks a program touched.
#include <gmock/gmock.h>

#include <cstdlib>

#include "analyzer/trace/timeline.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

struct Touches : trace::Observer {
  std::vector<std::uint64_t> pages;
  std::optional<trace::Snapshot> last;
  void touched(trace::ThreadId, std::uint64_t, std::uint64_t count) override { pages.push_back(count); }
  void snapshot_taken(const trace::Snapshot& snapshot) override { last = snapshot; }
};

bool holds(const std::vector<trace::ResidentPages>& records, std::uint64_t page) {
  for (const trace::ResidentPages& each : records)
    if (page >= each.start && page < each.start + each.pages * 4096)
      return each.resident((page - each.start) / 4096).value_or(false);
  return false;
}

TEST(Touch, TellsThePagesThatAreWrittenAndChangesNothingThatTheProgramSees) {
  Recording run({.command = {victim("touches_pages")}, .environment = {{"HEAPSPY_TOUCH", "on"}}});
  ASSERT_EQ(run.finish().exit_status, 0) << run.finish();
  Touches touches;
  const trace::Reader reader(run.trace());
  trace::Timeline(reader, {&touches}).run();
  // all, some, none, zeros (glibc clears what was used before), grown before it grows and after (with the page where it ended
  // before), fresh.
  EXPECT_THAT(touches.pages, testing::ElementsAre(63, 3, 0, 63, 2, 3, 5));

  ASSERT_TRUE(touches.last);
  const std::uint64_t kept = std::strtoull(run.finish().out.c_str(), nullptr, 16), first = (kept + 4095) / 4096 * 4096;
  for (std::uint64_t i = 0; i < 63; i++) {
    EXPECT_TRUE(holds(touches.last->resident, first + i * 4096)) << i;
    EXPECT_EQ(holds(touches.last->marked, first + i * 4096), i >= 2) << i;
  }
}

TEST(Touch, IsOffUnlessAskedFor) {
  Recording run({.command = {victim("touches_pages")}});
  ASSERT_EQ(run.finish().exit_status, 0) << run.finish();
  Touches touches;
  const trace::Reader reader(run.trace());
  trace::Timeline(reader, {&touches}).run();
  EXPECT_TRUE(touches.pages.empty());
  ASSERT_TRUE(touches.last);
  EXPECT_TRUE(touches.last->marked.empty());
}

}  // namespace
}  // namespace heapspy::test
