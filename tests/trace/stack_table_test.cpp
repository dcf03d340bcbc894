#include "analyzer/trace/stack_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <random>

#include "analyzer/trace/java_name.h"
#include "analyzer/trace/pack.h"
#include "analyzer/trace/packed_stacks.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/timeline.h"
#include "heapspy/format/java_place.h"
#include "tests/support/trace_builder.h"

namespace heapspy::test {
namespace {

using format::CellKind;
using trace::Block;
using trace::Image;
using trace::SiteId;
using trace::Stack;
using trace::StackEnd;
using trace::StackFrame;

constexpr std::uint64_t kBias = 0x7f1234560000;

struct Sites : trace::Observer {
  std::map<std::uint64_t, SiteId> of;  // by size of the block
  void allocated(const Block& block, trace::Tick) override { of[block.size] = block.site; }
  void resized(const Block&, const Block& after, trace::ThreadId, trace::Tick) override { of[after.size] = after.site; }
};

std::map<std::uint64_t, SiteId> sites_of(const trace::Reader& reader) {
  Sites sites;
  trace::Timeline(reader, {&sites}).run();
  return sites.of;
}

TEST(Stacks, HoldForAllAllocationsUntilTheNextOne) {
  TraceBuilder trace;
  trace.module(1, "/bin/victim", "", kBias);
  const auto outer = trace.frame(0, kBias + 0x1100, 1);
  const auto inner = trace.frame(outer, kBias + 0x2200, 1), other = trace.frame(outer, kBias + 0x3300, 1);
  trace.thread("main", 100)
      .stamp(10)
      .malloc(0x1000, 1)
      .stack(inner)
      .malloc(0x2000, 2)
      .free(0x1000)
      .calloc(0x3000, 3)
      .stack(other)
      .realloc(0x3000, 0x4000, 4)
      .realloc(0x4000, 0x4000, 5)
      .aligned(0x6000, 6)
      .stack(0)
      .malloc(0x7000, 7);
  TemporaryFile file(trace.bytes());
  const trace::Reader reader(file.path());
  auto sites = sites_of(reader);
  EXPECT_EQ(sites[1], SiteId::none) << "before the first";
  EXPECT_EQ(sites[2], sites[3]);
  EXPECT_EQ(sites[4], sites[5]);
  EXPECT_EQ(sites[4], sites[6]);
  EXPECT_NE(sites[2], sites[4]);
  EXPECT_EQ(sites[7], SiteId::none) << "told to be unknown";
  const Stack stack = reader.stacks().stack(sites[2]);
  EXPECT_EQ(stack.end, StackEnd::whole);
  EXPECT_EQ(stack.frames, (std::vector<StackFrame>{{0x2200, 0, false}, {0x1100, 0, false}}));
  EXPECT_EQ(reader.stacks().images(), (std::vector<Image>{{"/bin/victim", ""}}));
  EXPECT_TRUE(reader.damage().empty());
}

TEST(Stacks, HaveTheNamesOfJavasMethods) {
  TraceBuilder trace;
  trace.method(7, "java/util/zip/Inflater.init(Z[BLjava/lang/String;[[J)J");
  trace.method(8, "[StubRoutines]");
  const auto stub = trace.cell(8, trace.frame(0, 0x500), CellKind::java);
  const auto once = trace.frame(trace.cell(7, stub, CellKind::java), 0x600);
  trace.method(9, "java/util/zip/Inflater.init(Z[BLjava/lang/String;[[J)J");  // its class was unloaded, and loaded again
  const auto again = trace.frame(trace.cell(9, stub, CellKind::java), 0x600), nobodys = trace.cell(10, stub, CellKind::java);
  TemporaryFile file(trace.bytes());
  const trace::Reader reader(file.path());
  trace::StackTable stacks = reader.stacks();
  const Stack stack = stacks.stack(stacks.site(once));
  EXPECT_EQ(stacks.methods(),
            (std::vector<std::string>{"java.util.zip.Inflater.init(boolean, byte[], String, long[][])", "[StubRoutines]"}));
  EXPECT_EQ(stack.frames,
            (std::vector<StackFrame>{{0x600}, {0, trace::kNoImage, false, 0}, {0, trace::kNoImage, false, 1}, {0x500}}));
  EXPECT_EQ(stack.end, StackEnd::whole);
  EXPECT_EQ(stacks.site(once), stacks.site(again));
  EXPECT_TRUE(stacks.stack(stacks.site(nobodys)).frames.empty());
  EXPECT_EQ(stacks.stack(stacks.site(nobodys)).end, StackEnd::unknown);
}

TEST(Stacks, TellTheMethodsThatWereCompiledIntoOneAndTheirLines) {
  TraceBuilder trace;
  trace.method(7, "shop/Cart.add(I)V");
  trace.method(8, "shop/Shop.main([Ljava/lang/String;)V");
  trace.cell(9 | 1ull << 32, 2, format::kPlaceCell);
  trace.cell(7 | 12ull << 32, 8, CellKind{34});  // its two entries, innermost first: (7, 12), (8, 34)
  trace.cell(10 | 1ull << 32, 3, format::kPlaceCell);
  trace.cell(7 | 12ull << 32, 8, CellKind{34});  // fewer than it says
  const auto outer = trace.frame(0, 0x500);
  const auto of_place = trace.frame(trace.cell(9, outer, format::kJavaPlaceCell), 0x600);
  const auto of_cut_place = trace.cell(10, outer, format::kJavaPlaceCell),
             nobodys = trace.cell(11, outer, format::kJavaPlaceCell), no_method = trace.cell(9, outer, CellKind::java);
  TemporaryFile file(trace.bytes());
  const trace::Reader reader(file.path());
  trace::StackTable stacks = reader.stacks();
  const Stack stack = stacks.stack(stacks.site(of_place));
  ASSERT_EQ(stack.frames.size(), 4u);
  EXPECT_EQ(stacks.methods()[stack.frames[1].method], "shop.Cart.add(int):12");
  EXPECT_EQ(stacks.methods()[stack.frames[2].method], "shop.Shop.main(String[]):34");
  EXPECT_EQ(stack.frames[3].address, 0x500u);
  for (const auto each : {of_cut_place, nobodys, no_method}) {
    EXPECT_TRUE(stacks.stack(stacks.site(each)).frames.empty());
    EXPECT_EQ(stacks.stack(stacks.site(each)).end, StackEnd::unknown);
  }
}

TEST(JavaName, LeavesOutWhatIsAnotherInEachRun) {
  EXPECT_EQ(trace::java_name("shop/Cart$$Lambda$14+0x0000000800c03000.get()Ljava/lang/Object;"), "shop.Cart$$Lambda.get()");
  EXPECT_EQ(trace::java_name("shop/Cart$$Lambda+0x0000000800c03000.get()I"), "shop.Cart$$Lambda.get()");
  EXPECT_EQ(trace::java_name("Cart.<init>(I"), "Cart.<init>(I") << "cut";
  EXPECT_EQ(trace::java_name("Cart.odd([)V"), "Cart.odd()");
}

TEST(Stacks, AreForgottenWhereWordsAreLost) {
  TraceBuilder trace;
  const auto cell = trace.frame(0, 0xA1A2);
  trace.thread("main", 100)
      .stamp(10)
      .stack(cell)
      .malloc(0x1000, 1)
      .lose(5, 5)
      .stamp(30)
      .malloc(0x2000, 2)
      .stack(cell)
      .malloc(0x3000, 3);
  TemporaryFile file(trace.bytes());
  const trace::Reader reader(file.path());
  auto sites = sites_of(reader);
  EXPECT_EQ(sites[1], SiteId{1});
  EXPECT_EQ(sites[2], SiteId::none);
  EXPECT_EQ(sites[3], SiteId{1});
}

TEST(Stacks, AreOneSiteThoughTheirCellsAreSeveral) {
  TraceBuilder trace;
  trace.module(1, "/lib/plugin.so", "ABCD", kBias);
  const auto a = trace.frame(trace.frame(0, 0x500), kBias + 0x10, 1), b = trace.frame(trace.frame(0, 0x500), kBias + 0x10, 1);
  trace.module(2, "/lib/plugin.so", "ABCD", kBias + 0x100000);  // unloaded, loaded again
  const auto again = trace.frame(trace.frame(0, 0x500), kBias + 0x100010, 2);
  trace.module(3, "/lib/plugin.so", "EFGH", kBias);  // built anew in between
  const auto rebuilt = trace.frame(trace.frame(0, 0x500), kBias + 0x10, 3);
  const auto deeper = trace.frame(a, kBias + 0x20, 1);
  const auto interrupted = trace.frame(trace.frame(0, 0x500), kBias + 0x10, 1, CellKind::interrupted);
  TemporaryFile file(trace.bytes());
  const trace::Reader reader(file.path());
  trace::StackTable& stacks = reader.stacks();
  const SiteId site = stacks.site(a);
  EXPECT_EQ(stacks.site(b), site);
  EXPECT_EQ(stacks.site(again), site);
  EXPECT_NE(stacks.site(rebuilt), site);
  EXPECT_NE(stacks.site(deeper), site);
  EXPECT_NE(stacks.site(interrupted), site);
  EXPECT_EQ(stacks.sites(), 4u);
  EXPECT_TRUE(stacks.stack(stacks.site(interrupted)).frames[0].interrupted);
}

TEST(Stacks, SayWhyTheyEnd) {
  TraceBuilder trace;
  const auto depth = trace.frame(trace.cell(1, 0, CellKind::cut), 0x10),
             no_rule = trace.frame(trace.cell(2, 0, CellKind::cut), 0x10),
             bad = trace.frame(trace.cell(3, 0, CellKind::cut), 0x10), whole = trace.frame(0, 0x10);
  TemporaryFile file(trace.bytes());
  const trace::Reader reader(file.path());
  trace::StackTable& stacks = reader.stacks();
  EXPECT_EQ(stacks.stack(stacks.site(depth)).end, StackEnd::depth);
  EXPECT_EQ(stacks.stack(stacks.site(no_rule)).end, StackEnd::no_rule);
  EXPECT_EQ(stacks.stack(stacks.site(bad)).end, StackEnd::bad_stack);
  EXPECT_EQ(stacks.stack(stacks.site(whole)).end, StackEnd::whole);
  EXPECT_EQ(stacks.sites(), 4u);
}

TEST(Stacks, EndAtCellsThatCannotBe) {
  TraceBuilder trace;
  const auto unwritten = trace.cell(0, 0, CellKind::none);
  const auto over_unwritten = trace.frame(unwritten, 0x10);
  const auto itself = trace.frame(4, 0x20);  // is cell 3; 4 is below it
  const auto cycle = trace.frame(3, 0x30);
  const auto beyond = trace.frame(1000, 0x40);
  const auto odd = trace.cell(0x50, 0, static_cast<CellKind>(77));
  const auto no_module = trace.frame(0, 0x60, 9);
  TemporaryFile file(trace.bytes());
  const trace::Reader reader(file.path());
  trace::StackTable& stacks = reader.stacks();
  for (const std::uint64_t none :
       {std::uint64_t{0}, std::uint64_t{unwritten}, std::uint64_t{odd}, std::uint64_t{1} << 40, std::uint64_t{8}})
    EXPECT_EQ(stacks.site(none), SiteId::none) << none;
  for (const auto cell : {over_unwritten, itself, cycle, beyond})
    EXPECT_EQ(stacks.stack(stacks.site(cell)).end, StackEnd::unknown) << cell;
  EXPECT_EQ(stacks.stack(stacks.site(cycle)).frames.size(), 2u);
  EXPECT_EQ(stacks.stack(stacks.site(no_module)).frames, (std::vector<StackFrame>{{0x60, trace::kNoImage, false}}));
  EXPECT_TRUE(stacks.stack(SiteId::none).frames.empty());
  EXPECT_TRUE(stacks.stack(SiteId{99}).frames.empty());
}

TEST(Stacks, AreReadFromSeveralSegments) {
  TraceBuilderOptions options;
  options.segment_cells = 7;
  TraceBuilder trace(options);
  std::uint32_t cell = 0;
  for (std::uint64_t i = 1; i <= 100; i++) cell = trace.frame(cell, i * 16);
  TemporaryFile file(trace.bytes());
  const trace::Reader reader(file.path());
  const Stack stack = reader.stacks().stack(reader.stacks().site(cell));
  ASSERT_EQ(stack.frames.size(), 100u);
  for (std::uint64_t i = 0; i < 100; i++) EXPECT_EQ(stack.frames[i].address, (100 - i) * 16);
}

TEST(Stacks, AreReadWhateverIsDamaged) {
  TraceBuilder trace;
  trace.module(1, "/bin/victim", "ABCDEFGH", kBias);
  std::uint32_t cell = 0;
  for (std::uint64_t i = 1; i <= 40; i++) cell = trace.frame(i % 5 ? cell : 0, kBias + i * 16, 1);
  trace.thread("main", 100).stamp(10).stack(cell).malloc(0x1000, 1);
  const std::string whole = trace.bytes();
  const std::size_t at = whole.find("/bin/victim") & ~std::size_t{4095};
  std::mt19937_64 random(3);
  for (int round = 0; round < 400; round++) {
    std::string damaged = whole;
    for (int flips = 0; flips < 4; flips++) damaged[at + 64 + random() % 900] = static_cast<char>(random());
    if (round % 4 == 0) damaged.resize(at + 64 + random() % 900);
    TemporaryFile file(damaged);
    const trace::Reader reader(file.path());
    trace::StackTable& stacks = reader.stacks();
    for (std::uint64_t i = 0; i < 60; i++) EXPECT_LE(stacks.stack(stacks.site(i)).frames.size(), 50u);
  }
}

TEST(Stacks, ArePackedToTheLastBit) {
  std::mt19937_64 random(5);
  for (const std::size_t count : {0u, 1u, 7u, 3000u}) {
    std::vector<format::StackCell> cells(count), back;
    for (std::size_t i = 0; i < count; i++)
      cells[i] = {random() % 3 ? 0x7f0000001000 + random() % 100 : random(),
                  static_cast<std::uint32_t>(random() % 4 ? 500 + i - 1 : random()),
                  static_cast<CellKind>(random() % 9 ? random() % 7 : random())};
    const std::string payload = trace::pack_cells(500, cells);
    std::uint32_t first = 0;
    ASSERT_TRUE(trace::unpack_cells(payload, first, back));
    EXPECT_EQ(first, 500u);
    ASSERT_EQ(back.size(), count);
    for (std::size_t i = 0; i < count; i++)
      EXPECT_TRUE(back[i].code == cells[i].code && back[i].parent == cells[i].parent && back[i].kind == cells[i].kind) << i;
    for (std::size_t size = 0; size < std::min<std::size_t>(payload.size(), 200); size++)
      if (trace::unpack_cells(payload.substr(0, size), first, back)) {
        EXPECT_EQ(back.size(), count) << "only padding was cut";
      }
    for (int round = 0; round < 300 && !payload.empty(); round++) {
      std::string damaged = payload;
      damaged[random() % damaged.size()] = static_cast<char>(random());
      const bool taken = trace::unpack_cells(damaged, first, back);
      EXPECT_TRUE(taken || back.empty());
    }
  }
}

TEST(Stacks, ArePackedWithTheirTrace) {
  TraceBuilderOptions options;
  options.segment_cells = 50;
  TraceBuilder trace(options);
  trace.module(1, "/bin/victim", "ABCDEFGH", kBias);
  std::uint32_t cell = 0;
  auto& main = trace.thread("main", 100).stamp(10);
  for (std::uint64_t i = 1; i <= 200; i++) {
    cell = trace.frame(i % 5 ? cell : 0, kBias + i * 16, 1);
    main.stack(cell).malloc(i * 0x1000, i);
  }
  const std::string before = testing::TempDir() + "heapspy-stacks-before", after = testing::TempDir() + "heapspy-stacks-after";
  trace.write(before);
  trace::pack_trace(before, after, {});
  const trace::Reader plain(before), packed(after);
  EXPECT_TRUE(packed.damage().empty());
  EXPECT_LT(packed.size_bytes(), plain.size_bytes());
  EXPECT_EQ(sites_of(packed), sites_of(plain));
  for (std::uint32_t site = 1; site <= 200; site++)
    EXPECT_EQ(packed.stacks().stack(SiteId{site}).frames, plain.stacks().stack(SiteId{site}).frames);
  unlink(before.c_str());
  unlink(after.c_str());
}

}  // namespace
}  // namespace heapspy::test
