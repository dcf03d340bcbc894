#include "analyzer/model/timeline_curve.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/model/world.h"

namespace heapspy::test {
namespace {

TEST(TimelineCurve, KeepsThePeakHoweverLongTheTrace) {
  model::TimelineCurve curve;
  World world({&curve});
  for (std::uint64_t i = 0; i < 100000; i++) {
    world.now = i * 1'000'000;
    world.allocate(1, 0x10000 + i * 64, 10);
    if (i == 41234) {
      world.allocate(1, 0x100, 123456789);
      world.free(1, 0x100);
    }
    world.free(1, 0x10000 + i * 64);
  }
  const auto points = curve.points();
  EXPECT_LE(points.size(), 256u);
  EXPECT_GE(points.size(), 64u);
  std::uint64_t peak = 0;
  for (const auto& point : points) peak = std::max(peak, point.live_bytes);
  EXPECT_EQ(peak, 123456799u);
  for (std::size_t i = 1; i < points.size(); i++) EXPECT_LE(points[i - 1].tick, points[i].tick);
  EXPECT_EQ(points.back().live_bytes, 0u);
}

TEST(TimelineCurve, KeepsTheSnapshotOfHighestRssAndTheLastOne) {
  model::TimelineCurve curve;
  World world({&curve});
  world.allocate(1, 0x1000, 500);
  for (std::uint64_t i = 0; i < 1000; i++) {
    trace::Snapshot snapshot;
    snapshot.rss_bytes = i == 333 ? 99999 : 1000 + i;
    world.now = i * 10'000'000;
    world.snapshot(snapshot);
    curve.note(snapshot.begin, 2 * snapshot.rss_bytes, i);
  }
  const auto points = curve.points();
  EXPECT_LE(points.size(), 256u);
  const auto highest = std::max_element(points.begin(), points.end(), [](const auto& a, const auto& b) {
    return a.rss_bytes.value_or(0) < b.rss_bytes.value_or(0);
  });
  EXPECT_EQ(highest->rss_bytes, 99999u);
  EXPECT_EQ(highest->pinned_bytes, 333u);
  EXPECT_EQ(highest->system_bytes, 199998u);
  EXPECT_EQ(highest->live_bytes, 500u);
  EXPECT_EQ(points.back().rss_bytes, 1999u);
  EXPECT_EQ(points.back().pinned_bytes, 999u);
  EXPECT_EQ(points.back().tick, 9'990'000'000u);
}

TEST(TimelineCurve, SaysNothingOfResidencyWithoutSnapshots) {
  model::TimelineCurve curve;
  World world({&curve});
  world.allocate(1, 0x1000, 500);
  ASSERT_EQ(curve.points().size(), 1u);
  EXPECT_EQ(curve.points()[0].live_bytes, 500u);
  EXPECT_FALSE(curve.points()[0].rss_bytes);
  EXPECT_FALSE(curve.points()[0].pinned_bytes);
}

TEST(TimelineCurve, OfNothingHasNoPoints) { EXPECT_TRUE(model::TimelineCurve().points().empty()); }

}  // namespace
}  // namespace heapspy::test
