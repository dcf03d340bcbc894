#include "analyzer/process/mapping_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heapspy::process {
namespace {

using testing::ElementsAre;
using Kind = MappingKind;

Classification classify_text(std::string_view text, const Evidence& evidence = {}) {
  return classify(parse_mappings(text).mappings, evidence);
}

TEST(MappingKinds, TellFilesAndNamedMappingsApart) {
  const auto kinds = classify_text(
      "1000-2000 r--p 00000000 fe:00 1 /usr/bin/app\n"
      "2000-3000 r-xp 00001000 fe:00 1 /usr/bin/app\n"
      "3000-4000 rw-p 00002000 fe:00 1 /usr/bin/app\n"
      "4000-5000 r--p 00000000 fe:00 2 /usr/share/locale\n"
      "5000-6000 rw-p 00000000 00:00 0 [heap]\n"
      "6000-7000 rw-s 00000000 00:01 3 /dev/shm/segment\n"
      "7000-8000 rw-s 00000000 00:01 4 /memfd:name (deleted)\n"
      "8000-9000 rw-s 00000000 00:06 5 /dev/dri/card0\n"
      "9000-a000 r--p 00000000 fe:00 6 /usr/lib/jvm/lib/server/classes.jsa\n"
      "a000-b000 rw-s 00000000 fe:00 7 /var/tmp/heapspy.java.1.hspy\n"
      "b000-c000 rwxp 00000000 00:00 0 \n"
      "c000-d000 ---p 00000000 00:00 0 \n"
      "d000-e000 rw-p 00000000 00:00 0 \n"
      "e000-f000 rw-p 00000000 00:00 0 [stack]\n"
      "f000-10000 r--p 00000000 00:00 0 [vvar]\n"
      "10000-11000 r-xp 00000000 00:00 0 [vdso]\n"
      "11000-12000 rw-p 00000000 00:00 0 [anon: glibc: pthread stack: 42]\n"
      "12000-13000 rwxs 00000000 fe:00 8 /tmp/code\n");
  EXPECT_THAT(kinds.kinds,
              ElementsAre(Kind::library_data, Kind::library_code, Kind::library_data, Kind::file, Kind::main_heap,
                          Kind::shared_memory, Kind::shared_memory, Kind::device, Kind::java_archive, Kind::heapspy_trace,
                          Kind::executable_anonymous, Kind::reserved, Kind::anonymous, Kind::main_stack, Kind::kernel,
                          Kind::kernel_code, Kind::thread_stack, Kind::executable_file));
  EXPECT_TRUE(kinds.regions.empty());
}

// A region with its reserve, one that is full, and one that was full and merged with the next.
constexpr char kArenas[] =
    "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
    "7f0000021000-7f0004000000 ---p 00000000 00:00 0 \n"
    "7f0004000000-7f0008100000 rw-p 00000000 00:00 0 \n"
    "7f0008100000-7f000c000000 ---p 00000000 00:00 0 \n";

TEST(MappingKinds, FindArenaRegionsByTheirHeapInfo) {
  Evidence evidence;
  evidence.heap_at = [](std::uint64_t) { return std::optional(true); };
  const auto found = classify_text(kArenas, evidence);
  EXPECT_THAT(found.regions, ElementsAre(0x7f0000000000u, 0x7f0004000000u, 0x7f0008000000u));
  EXPECT_THAT(found.kinds, ElementsAre(Kind::arena, Kind::arena, Kind::arena, Kind::arena));
}

TEST(MappingKinds, AreNoArenasWhereNoHeapInfoStands) {
  Evidence evidence;
  evidence.heap_at = [](std::uint64_t) { return std::optional(false); };
  const auto found = classify_text(kArenas, evidence);
  EXPECT_TRUE(found.regions.empty());
  EXPECT_THAT(found.kinds, ElementsAre(Kind::anonymous, Kind::reserved, Kind::anonymous, Kind::reserved));
}

TEST(MappingKinds, GoByTheShapeWhereMemoryMayNotBeRead) {
  // Without proof the full region is left out: any large block has its shape.
  EXPECT_THAT(classify_text(kArenas).regions, ElementsAre(0x7f0000000000u, 0x7f0008000000u));
  // A Java heap of 192 MiB, 40 of them in use, lies below 32 GiB.
  const auto java = classify_text("f4000000-f6800000 rw-p 00000000 00:00 0 \nf6800000-100000000 ---p 00000000 00:00 0 \n");
  EXPECT_TRUE(java.regions.empty());
}

TEST(MappingKinds, WantTheWholeRegionCovered) {
  Evidence evidence;
  evidence.heap_at = [](std::uint64_t) { return std::optional(true); };
  EXPECT_TRUE(classify_text("7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n", evidence).regions.empty());
  EXPECT_TRUE(classify_text("7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
                            "7f0000021000-7f0003fff000 ---p 00000000 00:00 0 \n",
                            evidence)
                  .regions.empty());
}

TEST(MappingKinds, EndOnAbsurdRanges) {
  Evidence evidence;
  evidence.heap_at = [](std::uint64_t) { return std::optional(false); };
  EXPECT_TRUE(classify_text("0-ffffffffffffffff rw-p 00000000 00:00 0 \n", evidence).regions.empty());
}

TEST(MappingKinds, FindStacksByStackPointersAndThenBySize) {
  Evidence evidence;
  evidence.stack_pointers = {0x10001800};
  const auto found = classify_text(
      "10000000-10001000 ---p 00000000 00:00 0 \n"
      "10001000-10010000 rw-p 00000000 00:00 0 \n"  // holds the pointer
      "20000000-20004000 ---p 00000000 00:00 0 \n"
      "20004000-20010000 rw-p 00000000 00:00 0 \n"  // the same size with its guard, which is larger
      "30000000-30001000 ---p 00000000 00:00 0 \n"
      "30001000-30020000 rw-p 00000000 00:00 0 \n"   // another size
      "40001000-40010000 rw-p 00000000 00:00 0 \n",  // no guard
      evidence);
  EXPECT_THAT(found.kinds, ElementsAre(Kind::reserved, Kind::thread_stack, Kind::reserved, Kind::thread_stack, Kind::reserved,
                                       Kind::anonymous, Kind::anonymous));
}

TEST(MappingKinds, KnowAHeapInfoFromGarbage) {
  constexpr std::uint64_t kAt = 0x7f0008000000;
  EXPECT_TRUE(plausible_heap_info(kAt, {kAt + 0x30, 0, 0x21000, 0x21000}));
  EXPECT_TRUE(plausible_heap_info(kAt, {kAt + 0x20, 0, 0x21000, 0x4000000}));
  EXPECT_TRUE(plausible_heap_info(kAt, {0x7f0000000030, 0x7f0000000000, 0x1000, 0x1000}));
  EXPECT_FALSE(plausible_heap_info(kAt, {0, 0, 0, 0}));
  EXPECT_FALSE(plausible_heap_info(kAt, {kAt + 0x40, 0, 0x21000, 0x21000}));
  EXPECT_FALSE(plausible_heap_info(kAt, {kAt + 0x30, 0x1000, 0x21000, 0x21000}));
  EXPECT_FALSE(plausible_heap_info(kAt, {kAt + 0x30, 0, 0x21001, 0x22000}));
  EXPECT_FALSE(plausible_heap_info(kAt, {kAt + 0x30, 0, 0x22000, 0x21000}));
  EXPECT_FALSE(plausible_heap_info(kAt, {kAt + 0x30, 0, 0x21000, 0x4001000}));
  EXPECT_FALSE(plausible_heap_info(kAt, {0x7f0000000030, 0, 0x1000, 0x1000}));
}

}  // namespace
}  // namespace heapspy::process
