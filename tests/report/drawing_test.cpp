#include "analyzer/report/drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analyzer/report/printable.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

using ::testing::ElementsAre;

TEST(Drawing, ABarFillsItsShareToTheEighth) {
  EXPECT_EQ(bar(0, 10), "");
  EXPECT_EQ(bar(1, 3), "███");
  EXPECT_EQ(bar(0.5, 3), "█▌");
  EXPECT_EQ(bar(1e-9, 3), "▏");
  EXPECT_EQ(bar(7, 3), "███");
  EXPECT_EQ(bar(std::nan(""), 3), "");
}

TEST(Drawing, ASparklineShowsWhatIsSmallAndLeavesOutWhatIsUnknown) {
  EXPECT_EQ(sparkline({0, 1, 4, 8, std::nullopt, 1000}), " ▁▁▁ █");
  EXPECT_EQ(sparkline({1, 2, 3, 4, 5, 6, 7, 8}), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline({~0ull, 1}), "█▁");
  EXPECT_EQ(sparkline({}), "");
}

TEST(Table, AlignsNumbersRightAndLetsOneColumnGiveWay) {
  Table table({"Name", "count"});
  table.add({"a-very-long-name", "1 000"});
  table.add({"b", "7"});
  EXPECT_THAT(table.lines(100), ElementsAre("Name              count", "a-very-long-name  1 000", "b                     7"));
  EXPECT_THAT(table.lines(16), ElementsAre("Name       count", "a-very-l…  1 000", "b              7"));
}

TEST(Table, NeverExceedsItsWidth) {
  Table table({"Name", "a", "b"});
  table.add({std::string(300, 'x'), std::string(300, 'y'), std::string(300, 'z')});
  for (const std::string& line : table.lines(100)) EXPECT_LE(columns(line), 100u);
}

TEST(Table, TwoBlocksStandBesideEachOther) {
  EXPECT_THAT(beside({"a", "bb"}, 4, {"x"}), ElementsAre("a   x", "bb"));
  EXPECT_THAT(beside({"a"}, 4, {"x", "y"}), ElementsAre("a   x", "    y"));
}

}  // namespace
}  // namespace heapspy::report
