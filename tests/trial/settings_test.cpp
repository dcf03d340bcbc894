#include "analyzer/trial/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace heapspy::trial {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::string complaint(std::string_view list) {
  try {
    parse_settings(list);
    return "accepted";
  } catch (const BadSetting& bad) {
    return bad.what();
  }
}

Surroundings surroundings(std::map<std::string, std::string> environment = {},
                          std::map<std::string, std::string> libraries = {}, const std::string& program = "app") {
  return {[=](const char* name) {
            const auto found = environment.find(name);
            return found == environment.end() ? std::string() : found->second;
          },
          [=](const char* file) {
            const auto found = libraries.find(file);
            return found == libraries.end() ? std::nullopt : std::optional(found->second);
          },
          program};
}

Recipe recipe(std::string_view setting, const Surroundings& where = surroundings()) {
  return recipe_for(parse_settings(setting).at(0), where);
}

TEST(Settings, ReadTheWholeList) {
  const auto settings = parse_settings(
      "default,arena_max=2,trim_threshold=128KiB,mmap_threshold=1m,tcache_count=0,jemalloc,tcmalloc,mimalloc,trim=2.5,default");
  ASSERT_EQ(settings.size(), 9u) << "a double is kept once";
  EXPECT_EQ(settings[0].kind, SettingKind::base);
  EXPECT_EQ(settings[1].kind, SettingKind::arena_max);
  EXPECT_EQ(settings[1].value, 2u);
  EXPECT_EQ(settings[1].text, "arena_max=2");
  EXPECT_EQ(settings[2].value, 131072u);
  EXPECT_EQ(settings[3].value, 1048576u);
  EXPECT_EQ(settings[4].value, 0u);
  EXPECT_EQ(settings[8].value, 2500u);
}

TEST(Settings, NameTheBadValueAndWhatIsAccepted) {
  EXPECT_EQ(
      complaint("default,arenamax=2"),
      "\"arenamax=2\" is no setting; there are default, arena_max=N, trim_threshold=SIZE, mmap_threshold=SIZE, tcache_count=N, "
      "jemalloc, tcmalloc, mimalloc, trim=SECONDS");
  EXPECT_EQ(complaint("arena_max"), "\"arena_max\": arena_max takes a number from 1 to 1000000, as in arena_max=2");
  EXPECT_EQ(complaint("arena_max=0"), "\"arena_max=0\": arena_max takes a number from 1 to 1000000, as in arena_max=2");
  EXPECT_EQ(complaint("arena_max=2x"), "\"arena_max=2x\": arena_max takes a number from 1 to 1000000, as in arena_max=2");
  EXPECT_EQ(complaint("arena_max=-1"), "\"arena_max=-1\": arena_max takes a number from 1 to 1000000, as in arena_max=2");
  EXPECT_EQ(complaint("trim_threshold=lots"),
            "\"trim_threshold=lots\": trim_threshold takes a size, as in trim_threshold=128KiB");
  EXPECT_EQ(complaint("trim=0"), "\"trim=0\": trim takes seconds, as in trim=10");
  EXPECT_EQ(complaint("trim=nan"), "\"trim=nan\": trim takes seconds, as in trim=10");
  EXPECT_EQ(complaint("jemalloc=5"), "\"jemalloc=5\": jemalloc takes no value");
  EXPECT_TRUE(complaint("").starts_with("\"\" is no setting;"));
  EXPECT_TRUE(complaint("default,").starts_with("\"\" is no setting;"));
}

TEST(Settings, ReadSizesInPowersOf1024) {
  EXPECT_EQ(parse_size("512"), 512u);
  EXPECT_EQ(parse_size("512B"), 512u);
  EXPECT_EQ(parse_size("3k"), 3072u);
  EXPECT_EQ(parse_size("3KiB"), 3072u);
  EXPECT_EQ(parse_size("5MiB"), 5242880u);
  EXPECT_EQ(parse_size("8g"), 8589934592u);
  EXPECT_EQ(parse_size("17179869183GiB"), 0xFFFFFFFFC0000000u);
  for (const char* bad : {"", "KiB", "-1", "1.5k", "3 KiB", "3kb", "17179869184GiB", "99999999999999999999"})
    EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST(Settings, AreWhatAUserWouldSetByHand) {
  EXPECT_THAT(recipe("default").environment, IsEmpty());
  EXPECT_EQ(by_hand(recipe("default")), "");
  EXPECT_EQ(by_hand(recipe("arena_max=2")), "MALLOC_ARENA_MAX=2");
  EXPECT_EQ(by_hand(recipe("trim_threshold=128KiB")), "MALLOC_TRIM_THRESHOLD_=131072");
  EXPECT_EQ(by_hand(recipe("mmap_threshold=64k")), "MALLOC_MMAP_THRESHOLD_=65536");
  EXPECT_EQ(by_hand(recipe("tcache_count=0")), "GLIBC_TUNABLES=glibc.malloc.tcache_count=0");
  EXPECT_EQ(by_hand(recipe("tcache_count=1", surroundings({{"GLIBC_TUNABLES", "glibc.malloc.perturb=1"}}))),
            "GLIBC_TUNABLES=glibc.malloc.perturb=1:glibc.malloc.tcache_count=1");
}

TEST(Settings, PreloadAnAllocatorBeforeWhatIsThere) {
  const auto where = surroundings({{"LD_PRELOAD", "/opt/other.so"}}, {{"libjemalloc.so.2", "/lib/libjemalloc.so.2"}});
  const Recipe jemalloc = recipe("jemalloc", where);
  EXPECT_EQ(jemalloc.library, "/lib/libjemalloc.so.2");
  EXPECT_EQ(jemalloc.unavailable, "");
  EXPECT_THAT(jemalloc.environment, ElementsAre(Pair("LD_PRELOAD", "/lib/libjemalloc.so.2:/opt/other.so")));
}

TEST(Settings, NameThePackageOfAMissingAllocator) {
  EXPECT_EQ(recipe("jemalloc").unavailable, "jemalloc is not installed; apt install libjemalloc2 brings libjemalloc.so.2");
  EXPECT_EQ(recipe("tcmalloc").unavailable,
            "tcmalloc is not installed; apt install libtcmalloc-minimal4 brings libtcmalloc_minimal.so.4");
  EXPECT_EQ(recipe("mimalloc").unavailable, "mimalloc is not installed; apt install libmimalloc2.0 brings libmimalloc.so.2");
}

TEST(Settings, TrimAJvmByItsOwnFlagAndNothingElse) {
  const auto java = surroundings({{"JAVA_TOOL_OPTIONS", "-Xss1m"}}, {}, "/usr/bin/java");
  EXPECT_EQ(by_hand(recipe("trim=10", java)), "JAVA_TOOL_OPTIONS='-Xss1m -XX:TrimNativeHeapInterval=10000'");
  EXPECT_EQ(recipe("trim=10").unavailable,
            "trim=10 is not tried: nothing calls malloc_trim in a program that runs unrecorded; try heapspy record, then "
            "heapspy trim");
}

}  // namespace
}  // namespace heapspy::trial
