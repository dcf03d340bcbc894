#include "analyzer/process/mappings.h"

#include <gtest/gtest.h>

namespace heapspy::process {
namespace {

constexpr char kMaps[] =
    "55dad5bbc000-55dad5bbe000 r--p 0000a000 fe:01 247134                     /usr/bin/with a space\n"
    "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
    "7f0000021000-7f0004000000 ---p 00000000 00:00 0 \n"
    "7ffd6a5e2000-7ffd6a603000 rw-p 00000000 00:00 0                          [stack]\n"
    "7fff00000000-7fff00001000 rwxs 00000000 00:05 77                         /dev/zero (deleted)\n";

TEST(Mappings, ReadEveryFieldOfMaps) {
  const MappingList list = parse_mappings(kMaps);
  ASSERT_EQ(list.mappings.size(), 5u);
  EXPECT_EQ(list.damaged_lines, 0u);
  const Mapping& file = list.mappings[0];
  EXPECT_EQ(file.start, 0x55dad5bbc000u);
  EXPECT_EQ(file.end, 0x55dad5bbe000u);
  EXPECT_EQ(file.file_offset, 0xa000u);
  EXPECT_EQ(file.device_major, 0xfeu);
  EXPECT_EQ(file.device_minor, 1u);
  EXPECT_EQ(file.inode, 247134u);
  EXPECT_EQ(file.name, "/usr/bin/with a space");
  EXPECT_TRUE(file.read);
  EXPECT_FALSE(file.write || file.execute || file.shared || file.anonymous());
  EXPECT_EQ(list.mappings[1].name, "");
  EXPECT_TRUE(list.mappings[1].anonymous());
  EXPECT_EQ(list.mappings[2].size_bytes(), 0x3fdf000u);
  EXPECT_EQ(list.mappings[3].name, "[stack]");
  EXPECT_TRUE(list.mappings[4].shared && list.mappings[4].execute);
  EXPECT_FALSE(list.mappings[4].anonymous());
}

TEST(Mappings, ReadTheSizesOfSmaps) {
  const MappingList list = parse_mappings(
      "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
      "Size:                132 kB\nKernelPageSize:        4 kB\nRss:                 101 kB\nPss:                  1 kB\n"
      "Private_Dirty:       102 kB\nAnonymous:           103 kB\nAnonHugePages:       104 kB\nSwap:                105 kB\n"
      "SwapPss:               9 kB\nTHPeligible:           0\nVmFlags: rd wr mr mw me ac \n");
  ASSERT_EQ(list.mappings.size(), 1u);
  EXPECT_EQ(list.damaged_lines, 0u);
  EXPECT_EQ(list.mappings[0].rss_bytes, 101u * 1024);
  EXPECT_EQ(list.mappings[0].private_dirty_bytes, 102u * 1024);
  EXPECT_EQ(list.mappings[0].anonymous_bytes, 103u * 1024);
  EXPECT_EQ(list.mappings[0].anon_huge_bytes, 104u * 1024);
  EXPECT_EQ(list.mappings[0].swap_bytes, 105u * 1024);
}

TEST(Mappings, CountDamagedLinesAndKeepTheRest) {
  const MappingList list = parse_mappings(
      "not a mapping\n"
      "Rss:                 100 kB\n"                      // below no mapping
      "7f0000021000-7f0000000000 rw-p 00000000 00:00 0\n"  // ends before it starts
      "Rss:                 100 kB\n"
      "7f0000000000-7f0000021000 rw-p 00000000 00:00 0\n"
      "Rss:                   8 kB\n"
      "Rss: much\n"
      "Swap: 99999999999999999999 kB\n"
      "\n");
  ASSERT_EQ(list.mappings.size(), 1u);
  EXPECT_EQ(list.mappings[0].rss_bytes, 8192u);
  EXPECT_EQ(list.mappings[0].swap_bytes, 0u);
  EXPECT_EQ(list.damaged_lines, 7u);
}

TEST(Mappings, AreTotalOnTextCutAnywhereAndWithAnyByteChanged) {
  const std::string text(kMaps);
  for (std::size_t length = 0; length <= text.size(); length++) {
    const MappingList list = parse_mappings(std::string_view(text).substr(0, length));
    EXPECT_LE(list.mappings.size(), 5u);
  }
  for (std::size_t at = 0; at < text.size(); at++)
    for (const char byte : {'\0', '\n', ':', '-', 'f', '\xff'}) {
      std::string damaged = text;
      damaged[at] = byte;
      const MappingList list = parse_mappings(damaged);
      EXPECT_GE(list.mappings.size() + list.damaged_lines, 4u) << "byte " << at;
    }
}

}  // namespace
}  // namespace heapspy::process
