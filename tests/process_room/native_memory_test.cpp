#include "analyzer/process/native_memory.h"

#include <gtest/gtest.h>

namespace heapspy::process {
namespace {

// As JDK 17 prints it.
constexpr char kSummary17[] =
    "4242:\n\nNative Memory Tracking:\n\n(Omitting categories weighting less than 1KB)\n\n"
    "Total: reserved=2013831KB, committed=266383KB\n"
    "       malloc: 38539KB #8449\n"
    "       mmap:   reserved=1975292KB, committed=227844KB\n\n"
    "-                 Java Heap (reserved=524288KB, committed=167936KB)\n"
    "                            (mmap: reserved=524288KB, committed=167936KB) \n \n"
    "-                    Thread (reserved=20533KB, committed=893KB)\n"
    "                            (thread #20)\n"
    "                            (stack: reserved=20480KB, committed=840KB)\n"
    "                            (malloc=31KB #124) (peak=39KB #128) \n"
    "                            (arena=22KB #38) (peak=52KB #36)\n \n"
    "-    Native Memory Tracking (reserved=305KB, committed=305KB)\n"
    "                            (malloc=173KB #2034) (at peak) \n"
    "                            (tracking overhead=132KB)\n";
// … and JDK 25.
constexpr char kSummary25[] =
    "Total: reserved=2003699KB, committed=490891KB\n"
    "       malloc: 38643KB #9826, peak=38470KB #9827\n"
    "-                  Compiler (reserved=199KB, committed=199KB)\n"
    "                            (malloc=3KB tag=Compiler #30) (at peak)\n"
    "                            (arena=196KB #6) (peak=507KB #12)\n"
    "-        Shared class space (reserved=16384KB, committed=13908KB, readonly=0KB)\n"
    "                            (mmap: reserved=16384KB, committed=13908KB, peak=14116KB)\n";

TEST(NativeMemory, ReadsWhatAJvmPrints) {
  const auto memory = parse_native_memory(kSummary17);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->reserved_bytes, 2013831u * 1024u);
  EXPECT_EQ(memory->committed_bytes, 266383u * 1024);
  ASSERT_EQ(memory->tags.size(), 3u);
  EXPECT_EQ(memory->tags[0].name, "Java Heap");
  EXPECT_EQ(memory->tags[0].reserved_bytes, 524288u * 1024);
  EXPECT_EQ(memory->tags[0].committed_bytes, 167936u * 1024);
  EXPECT_EQ(memory->tags[0].malloc_bytes, 0u);
  EXPECT_EQ(memory->tags[1].name, "Thread");
  EXPECT_EQ(memory->tags[1].malloc_bytes, 31u * 1024);
  EXPECT_EQ(memory->tags[1].arena_bytes, 22u * 1024);
  EXPECT_EQ(memory->malloc_bytes(), (31u + 22 + 173 + 132) * 1024);
}

TEST(NativeMemory, ReadsTheFormOfLaterVersions) {
  const auto memory = parse_native_memory(kSummary25);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->committed_bytes, 490891u * 1024);
  ASSERT_EQ(memory->tags.size(), 2u);
  EXPECT_EQ(memory->tags[1].name, "Shared class space");
  EXPECT_EQ(memory->tags[1].committed_bytes, 13908u * 1024);
  EXPECT_EQ(memory->malloc_bytes(), (3u + 196) * 1024);
}

TEST(NativeMemory, IsNotMadeUpFromOtherText) {
  EXPECT_FALSE(parse_native_memory(""));
  EXPECT_FALSE(parse_native_memory("4242:\nNative memory tracking is not enabled\n"));
  EXPECT_FALSE(parse_native_memory("Total: reserved=1MB, committed=1MB\n- Class (reserved=1MB, committed=1MB)\n"));
  EXPECT_FALSE(parse_native_memory("Total: reserved=99999999999999999999KB, committed=1KB\n"));
}

}  // namespace
}  // namespace heapspy::process
