#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analyzer/exports/exports.h"
#include "tests/exports/shop.h"

namespace heapspy::test {
namespace {

using exports::Value;

TEST(Folded, HasOneLineForEachStackThatHoldsSomething) {
  EXPECT_EQ(exports::folded(shop_report(), Value::inuse_space), "main;[libz.so.1+0x4f20];fill;push 300\n");
  EXPECT_EQ(exports::folded(shop_report(), Value::alloc_objects),
            "main;Script::a:b \"c\" 1\n"
            "main;[libz.so.1+0x4f20];fill;push 10\n");
}

TEST(Folded, SumsSitesThatDifferInLinesOnly) {
  report::Report report = shop_report();
  report.sites[1] = report.sites[0];
  report.sites[1].frames.back().line = 7;
  EXPECT_EQ(exports::folded(report, Value::alloc_space), "main;[libz.so.1+0x4f20];fill;push 2000\n");
}

TEST(Csv, QuotesStacksAndLeavesEmptyWhatIsNotKnown) {
  EXPECT_EQ(exports::csv(shop_report()),
            "site,allocations,bytes,reallocations,live_blocks,live_bytes,peak_bytes,temporary,pinned_bytes,threads,stack\r\n"
            "1,10,1000,0,3,300,400,1,64,1 2,\"push (vector.h:10) <- fill (shop.cpp:20) <- [libz.so.1+0x4f20] <- main "
            "(shop.cpp:5)\"\r\n"
            "2,1,50,0,0,0,,,,1,\"Script::a;b \"\"c\"\" <- main (shop.cpp:6)\"\r\n");
}

TEST(Dhat, HasTheFieldsOfVersion2) {
  const auto json = nlohmann::json::parse(exports::dhat(shop_report()));
  EXPECT_EQ(json["dhatFileVersion"], 2);
  EXPECT_EQ(json["mode"], "heap");
  EXPECT_EQ(json["verb"], "Allocated");
  EXPECT_EQ(json["bklt"], true);
  EXPECT_EQ(json["bkacc"], false);
  EXPECT_EQ(json["cmd"], "shop --open");
  EXPECT_EQ(json["pid"], 77);
  EXPECT_EQ(json["tg"], 1500000);
  EXPECT_EQ(json["te"], 2500000);
  EXPECT_EQ(json["ftbl"],
            nlohmann::json({"[root]", "0x1110: push (vector.h:10)", "0x1110: fill (shop.cpp:20)", "0x4f20: [libz.so.1+0x4f20]",
                            "0x1200: main (shop.cpp:5)", "0x7f0000001000: Script::a;b \"c\"", "0x1210: main (shop.cpp:6)"}));
  ASSERT_EQ(json["pps"].size(), 2u);
  const nlohmann::json fill = {{"tb", 1000}, {"tbk", 10}, {"tl", 250000}, {"mb", 500}, {"mbk", 5},
                               {"gb", 400},  {"gbk", 4},  {"eb", 200},    {"ebk", 2},  {"fs", {1, 2, 3, 4}}};
  EXPECT_EQ(json["pps"][0], fill);
}

}  // namespace
}  // namespace heapspy::test
