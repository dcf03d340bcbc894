// heapspy inspect as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analyzer/process/child_process.h"
#include "tests/cli/program.h"
#include "tests/process_room/forked_child.h"

namespace heapspy::cli_test {
namespace {

using nlohmann::json;
using process_test::ForkedChild;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A child of this process: whatever this one has allocated, and a free hole of 8 MiB.
class Inspect : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "AddressSanitizer brings its own allocator";
#endif
    const Ran ran = heapspy({"inspect", pid()});
    if (ran.status == 4) GTEST_SKIP() << ran.err;
  }
  std::string pid() const { return std::to_string(child_.pid()); }
  json inspected(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"inspect", pid(), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = heapspy(arguments);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran.status == 0 ? json::parse(ran.out) : json();
  }

  ForkedChild child_{[] {
    static void* volatile blocks[8192];
    for (auto& block : blocks) {
      void* made = std::memset(std::malloc(1000), 1, 1000);
      block = made;
    }
    for (std::size_t i = 0; i + 1 < std::size(blocks); i++) std::free(blocks[i]);
  }};
};

TEST_F(Inspect, HasEveryKeyOfItsSchema) {
  const json found = inspected();
  EXPECT_EQ(found["schema"], "heapspy.inspect/1");
  for (const char* key : {"process", "allocator", "arenas", "trim_prediction_bytes", "rss", "checks", "pause_s", "walk_s"})
    EXPECT_TRUE(found.contains(key)) << key;
  EXPECT_EQ(found["process"]["pid"], child_.pid());
  EXPECT_EQ(found["allocator"]["name"], "glibc");
  ASSERT_FALSE(found["arenas"].empty());
  for (const char* key :
       {"id",         "kind",         "address",        "heaps",           "threads",      "system_bytes", "in_use_bytes",
        "live_bytes", "live_blocks",  "resident_bytes", "trimmable_bytes", "pinned_bytes", "cached_bytes", "fragmentation",
        "top_bytes",  "tcache_bytes", "fastbin_bytes",  "unsorted_bytes",  "small_bytes",  "large_bytes",  "plug"})
    EXPECT_TRUE(found["arenas"][0].contains(key)) << key;
  for (const char* key : {"address", "bytes", "site"}) EXPECT_TRUE(found["arenas"][0]["plug"].contains(key)) << key;
  EXPECT_EQ(found["arenas"][0]["live_bytes"], nullptr);  // a heap does not say what was asked for
  for (const json& check : found["checks"]) EXPECT_EQ(check["ok"], true) << check;
  EXPECT_GT(found["trim_prediction_bytes"], 7 << 20);
  std::uint64_t parts = 0;
  for (const json& part : found["rss"]["parts"]) parts += part["bytes"].get<std::uint64_t>();
  EXPECT_EQ(parts, found["rss"]["total_bytes"]);
  EXPECT_FALSE(found.contains("chunks") || found.contains("bins"));
}

TEST_F(Inspect, ListsBinsAndChunksWhereAskedTo) {
  const json found = inspected({"--bins", "--chunks"});
  ASSERT_FALSE(found["bins"].empty());
  std::uint64_t free = 0, in_bins = 0, chunks_end = 0;
  for (const json& bin : found["bins"]) in_bins += bin["bytes"].get<std::uint64_t>();
  for (const json& chunk : found["chunks"]) {
    const std::string kind = chunk["kind"];
    if (kind == "fast bin" || kind == "unsorted" || kind == "small bin" || kind == "large bin")
      free += chunk["bytes"].get<std::uint64_t>();
    if (chunks_end != 0 && chunk["arena"] == found["arenas"][0]["address"]) {
      EXPECT_EQ(chunk["address"], chunks_end);
    }
    chunks_end = chunk["arena"] == found["arenas"][0]["address"]
                     ? chunk["address"].get<std::uint64_t>() + chunk["bytes"].get<std::uint64_t>()
                     : 0;
  }
  EXPECT_EQ(in_bins, free);
}

TEST_F(Inspect, SaysTheConclusionFirstAndNothingWiderThanAScreen) {
  const Ran ran = heapspy({"inspect", pid(), "--bins"});
  EXPECT_THAT(ran.out, StartsWith("malloc holds "));
  EXPECT_THAT(ran.out, HasSubstr("malloc_trim(0) would give"));
  EXPECT_THAT(ran.out, HasSubstr("Checks: all "));
  EXPECT_THAT(ran.out, HasSubstr("Next: heapspy trim " + pid()));
  std::size_t column = 0;
  for (const char c : ran.out) {
    column = c == '\n' ? 0 : column + ((c & 0xc0) != 0x80);
    ASSERT_LE(column, 100u) << ran.out;
  }
}

TEST_F(Inspect, DrawsAHeapPageByPage) {
  const json found = inspected();
  const std::uint64_t heap = found["heaps"][0]["address"];
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(heap + 100));
  const Ran ran = heapspy({"inspect", pid(), "--heap", address});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, StartsWith("Heap 0x"));
  EXPECT_THAT(ran.out, HasSubstr("|----------------"));  // the hole
  const Ran none = heapspy({"inspect", pid(), "--heap", "0x10"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no heap holds the address 0x10; "));
  EXPECT_EQ(heapspy({"inspect", pid(), "--heap", "here"}).status, 2);
}

TEST(InspectTarget, ThatIsNotThereEndsWithOneLineAndItsStatus) {
  const auto expect = [](const std::string& target, int status, const std::string& text) {
    const Ran ran = heapspy({"inspect", target});
    EXPECT_EQ(ran.status, status);
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, StartsWith("heapspy: "));
    EXPECT_THAT(ran.err, HasSubstr(text));
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1);
  };
  expect("2147483646", 4, "there is no process 2147483646");
  expect("/nowhere/core", 3, "/nowhere/core cannot be opened: No such file or directory; give a process id or a core file");
  expect("/etc/passwd", 3, "is neither a process id nor a core file");
  ForkedChild ended([] {});
  ended.kill_only();
  expect(std::to_string(ended.pid()), 4, "has ended");
}

class OtherAllocator : public testing::TestWithParam<const char*> {};

TEST_P(OtherAllocator, IsRecognisedAndGivenNoWordsOfGlibc) {
  std::string library;
  for (const auto& each : std::filesystem::directory_iterator("/usr/lib/x86_64-linux-gnu"))
    if (each.path().filename().string().starts_with(std::string("lib") + GetParam()) &&
        each.path().string().find(".so.") != std::string::npos)
      library = each.path();
  if (library.empty()) GTEST_SKIP() << GetParam() << " is not installed";
  const pid_t child =
      process::start_child({{"tail", "-f", "/dev/null"}, {{"LD_PRELOAD", library}}, process::ChildOutput::discard});
  // It maps its libraries before it opens the file it follows, and allocates between; until then it is asked again.
  const auto has_begun = [](const json& answer) {
    if (answer["allocator"]["name"] != GetParam()) return false;
    const json& counts = answer["allocator"]["statistics"];
    return GetParam() != std::string("tcmalloc") || (counts.is_object() && counts.value("thread_caches", 0) > 0);
  };
  const std::string pid = std::to_string(child);
  Ran ran;
  json found;
  do {
    ran = heapspy({"inspect", pid, "--json"});
    if (ran.status == 4) break;
    found = json::parse(ran.out);
  } while (!has_begun(found) && ::kill(child, 0) == 0);
  const Ran text = heapspy({"inspect", pid});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  if (ran.status == 4) GTEST_SKIP() << ran.err;
  EXPECT_TRUE(found["arenas"].empty());
  EXPECT_EQ(found["trim_prediction_bytes"], nullptr);
  EXPECT_FALSE(found["mappings"].empty());
  EXPECT_THAT(text.out, HasSubstr(std::string(GetParam()) + " answers malloc"));
  const json& counts = found["allocator"]["statistics"];
  if (GetParam() == std::string("tcmalloc")) {  // it grows by at least a MiB at a time
    EXPECT_GE(counts["taken_bytes"], 1 << 20);
    EXPECT_EQ(counts["taken_bytes"].get<std::uint64_t>() % 4096, 0u);
    EXPECT_GE(counts["thread_caches"], 1);
    EXPECT_THAT(text.out, HasSubstr("it has taken"));
  } else {
    EXPECT_TRUE(counts.is_null());
    EXPECT_THAT(text.out, HasSubstr("its own counts are not"));
  }
  for (const char* word : {"arena", "trim", "bin", "tcache", "glibc"}) EXPECT_THAT(text.out, Not(HasSubstr(word)));
}
INSTANTIATE_TEST_SUITE_P(Known, OtherAllocator, testing::Values("jemalloc", "tcmalloc", "mimalloc"));

}  // namespace
}  // namespace heapspy::cli_test
