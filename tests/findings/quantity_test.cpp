#include "analyzer/findings/quantity.h"

#include <gtest/gtest.h>

#include <limits>

namespace heapspy::findings {
namespace {

TEST(Quantity, BytesTakeTheLargestUnitThatKeepsThemAboveOne) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text((1ull << 20) - 1), "1.0 MiB");  // not "1024.0 KiB"
  EXPECT_EQ(bytes_text(752ull << 20), "752.0 MiB");
  EXPECT_EQ(bytes_text(5ull << 30), "5.0 GiB");
  EXPECT_EQ(bytes_text(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(Quantity, ChangesCarryTheirSign) {
  EXPECT_EQ(change_text(0), "0 B");
  EXPECT_EQ(change_text(64 << 20), "+64.0 MiB");
  EXPECT_EQ(change_text(-1536), "-1.5 KiB");
  EXPECT_EQ(change_text(std::numeric_limits<std::int64_t>::min()), "-8.0 EiB");
  EXPECT_EQ(count_change_text(1204), "+1 204");
  EXPECT_EQ(count_change_text(-3), "-3");
}

TEST(Quantity, CountsAreGroupedByThousands) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1 000");
  EXPECT_EQ(count_text(2431118), "2 431 118");
  EXPECT_EQ(plural_text(1, "block", "blocks"), "1 block");
  EXPECT_EQ(plural_text(2000, "block", "blocks"), "2 000 blocks");
}

TEST(Quantity, TimesFromNanosecondsToHours) {
  EXPECT_EQ(seconds_text(0), "0.0 s");
  EXPECT_EQ(seconds_text(12e-9), "12 ns");
  EXPECT_EQ(seconds_text(12.34e-6), "12.3 us");
  EXPECT_EQ(seconds_text(4e-3), "4.0 ms");
  EXPECT_EQ(seconds_text(9.8), "9.8 s");
  EXPECT_EQ(seconds_text(340.4), "340 s");
  EXPECT_EQ(seconds_text(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(Quantity, ASmallShareIsNotShownAsNothing) {
  EXPECT_EQ(percent_text(0, 100), "0 %");
  EXPECT_EQ(percent_text(1, 1000), "<1 %");
  EXPECT_EQ(percent_text(1, 8), "12 %");
  EXPECT_EQ(percent_text(5, 0), "");
}

}  // namespace
}  // namespace heapspy::findings
