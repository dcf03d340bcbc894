#include "analyzer/report/site_frames.h"

#include <gtest/gtest.h>

#include "analyzer/report/suppressions.h"

namespace heapspy::test {
namespace {

using namespace report;

FrameReport frame(std::string function, std::string module = "/bin/app", std::string file = "", std::uint64_t line = 0) {
  FrameReport frame;
  frame.function = std::move(function);
  frame.module = std::move(module);
  frame.file = std::move(file);
  if (line) frame.line = line;
  frame.offset = 0x4f20;
  return frame;
}

TEST(Frames, AreNamedShort) {
  EXPECT_EQ(short_function("main"), "main");
  EXPECT_EQ(short_function("shop::Basket<long>::add(void (*)(), int volatile*)"), "shop::Basket<long>::add");
  EXPECT_EQ(short_function("void shop::fill<std::map<int, std::vector<std::string>>>(int) const"), "shop::fill<…>");
  EXPECT_EQ(short_function("std::map<int, std::vector<long, std::allocator<long> > >::operator[](int const&)"),
            "std::map<…>::operator[]");
  EXPECT_EQ(short_function("bool ns::operator< <int>(A<int> const&, B)"), "ns::operator< <int>");
  EXPECT_EQ(short_function("std::ostream& std::operator<< <char>(std::ostream&)"), "std::operator<< <char>");
  EXPECT_EQ(short_function("main::{lambda(int)#1}::operator()(int) const"), "main::{lambda(int)#1}::operator()");
  EXPECT_EQ(short_function("(anonymous namespace)::run()"), "(anonymous namespace)::run");
  EXPECT_EQ(short_function("operator new(unsigned long)"), "operator new");
  EXPECT_EQ(short_function("shop::name[abi:cxx11](int)"), "shop::name");
  EXPECT_EQ(short_function("<alloc::vec::Vec<T> as core::clone::Clone>::clone"),
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone");
  EXPECT_EQ(short_function("Interpreter>>broken<"), "Interpreter>>broken<");
  EXPECT_EQ(short_function(""), "");
}

TEST(Frames, SayWhereTheyAre) {
  EXPECT_EQ(frame_text(frame("run()", "/bin/app", "/src/run.cpp", 7)), "run at /src/run.cpp:7");
  EXPECT_EQ(frame_text(frame("run()", "/bin/app", "/home/somebody/projects/deep/down/src/net/reader.cpp", 120)),
            "run at src/net/reader.cpp:120");
  EXPECT_EQ(frame_text(frame("", "/usr/lib/libz.so.1")), "libz.so.1+0x4f20");
  EXPECT_EQ(frame_text(frame("inflate", "/usr/lib/libz.so.1")), "inflate at libz.so.1+0x4f20");
  EXPECT_EQ(frame_text(frame("", "")), "0x4f20");
}

TEST(Frames, ThatTellMostAreNotOfAllocatorsAndStandardLibraries) {
  const std::vector<FrameReport> frames = {frame("operator new(unsigned long)", "/usr/lib/libstdc++.so.6"),
                                           frame("std::__new_allocator<int>::allocate(unsigned long, void const*)"),
                                           frame("void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)"),
                                           frame("shop::fill(int)"), frame("main")};
  EXPECT_EQ(telling_frame(frames), 3u);
  EXPECT_EQ(telling_frame({frame("xmalloc"), frame("xstrdup"), frame("read_line")}), 2u);
  EXPECT_EQ(telling_frame({frame("", "/usr/lib/x86_64-linux-gnu/libc.so.6"), frame("", "/opt/libplugin.so")}), 1u);
  EXPECT_EQ(telling_frame({frame("alloc::vec::Vec<T>::push"), frame("<alloc::string::String as core::clone::Clone>::clone"),
                           frame("hello::main")}),
            2u);
  EXPECT_EQ(telling_frame({frame("malloc", "/usr/lib/libc.so.6"), frame("_start")}), 0u) << "the innermost, where all are such";
  EXPECT_EQ(telling_frame(
                {frame("os::malloc(unsigned long, MEMFLAGS)"), frame("CHeapObj<(MEMFLAGS)9>::operator new[](unsigned long)"),
                 frame("MallocArrayAllocator<Task>::allocate(unsigned long, MEMFLAGS)"), frame("Queue::initialize()")}),
            3u);
  EXPECT_EQ(telling_frame({}), 0u);
}

TEST(Frames, WithoutANameGiveWayToTheNextOfTheirLibrary) {
  const std::vector<FrameReport> frames = {frame("", "/usr/lib/libz.so.1"), frame("", "/usr/lib/libz.so.1"),
                                           frame("inflate", "/usr/lib/libz.so.1"), frame("read_all")};
  EXPECT_EQ(telling_frame(frames), 2u);
  EXPECT_EQ(site_text(frames), "inflate at libz.so.1+0x4f20");
  EXPECT_EQ(where_text(frames), "inflate (libz.so.1+0x4f20)");
  EXPECT_EQ(telling_frame({frame("", "/usr/lib/libz.so.1"), frame("read_all")}), 0u) << "another library's name says nothing";
  EXPECT_EQ(telling_frame({frame("", "/usr/lib/libz.so.1")}), 0u);
}

TEST(Frames, OfNativeCodeSayWhichJavaCodeTheyWorkFor) {
  const auto java = [](std::string name, std::uint64_t line) {
    FrameReport each = frame(std::move(name), "", "", line);
    each.is_java = true;
    return each;
  };
  const std::vector<FrameReport> frames = {frame("inflate", "/usr/lib/libz.so.1"), java("java.util.zip.Inflater.inflate", 378),
                                           java("shop.Basket.read", 42), java("shop.Main.main", 7)};
  EXPECT_EQ(site_text(frames), "inflate (libz.so.1) for shop.Basket.read:42");
  EXPECT_EQ(where_text(frames), "inflate (libz.so.1) for shop.Basket.read:42");
  EXPECT_EQ(site_text({frames[0], frames[1]}), "inflate (libz.so.1) for java.util.zip.Inflater.inflate:378");
  EXPECT_EQ(site_text({frames[0], java("call_stub", 0)}), "inflate at libz.so.1+0x4f20");
  EXPECT_EQ(site_text({java("shop.Main.main", 7)}), "shop.Main.main:7");
  EXPECT_EQ(site_text({}), "(call stack not known)");
  EXPECT_EQ(where_text({}), "");
}

TEST(Suppressions, AreThoseOfLeakSanitizer) {
  const auto all =
      Suppressions::parse("# known\nleak:load_plugins\n\n  leak:^init_*table$\r\nleak:libfoo.so\nleak:ends$", "known");
  EXPECT_TRUE(all.match({frame("a"), frame("app::load_plugins(int)")}));
  EXPECT_TRUE(all.match({frame("init_symbol_table")}));
  EXPECT_FALSE(all.match({frame("init_symbol_tables")}));
  EXPECT_FALSE(all.match({frame("my_init_table")}));
  EXPECT_TRUE(all.match({frame("", "/opt/lib/libfoo.so.1")}));
  EXPECT_TRUE(all.match({frame("never_ends")}));
  EXPECT_FALSE(all.match({frame("ends_never")}));
  EXPECT_FALSE(all.match({}));
  EXPECT_THROW(Suppressions::parse("leak:a\nrace:b\n", "known"), BadSuppressions);
  EXPECT_THROW(Suppressions::read("/nowhere/at/all"), BadSuppressions);
  EXPECT_TRUE(Suppressions::parse("", "none").empty());
}

}  // namespace
}  // namespace heapspy::test
