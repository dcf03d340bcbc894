// heapspy trim of a real process under the real recorder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "analyzer/process/child_process.h"
#include "analyzer/process/stopped_process.h"
#include "tests/cli/program.h"

namespace heapspy::cli_test {
namespace {

using nlohmann::json;

constexpr int kBlocks = 32768, kBlockBytes = 1000;

// Under the recorder: fills the main heap, frees all but the last block, says so on descriptor 9, and goes on allocating a
// little, which is when a program of one thread serves a request.
TEST(Victim, DISABLED_HoldsATrimmableHeap) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  static void* blocks[kBlocks];
  for (void*& block : blocks) {
    block = std::malloc(kBlockBytes);
    std::memset(block, 1, kBlockBytes);
  }
  for (int i = 0; i + 1 < kBlocks; i++) std::free(blocks[i]);
  if (::write(9, "r", 1) != 1) ::_exit(1);
  for (;;) {
    void* volatile block = std::malloc(40);
    std::free(block);
    ::usleep(1000);
  }
}

class Trim : public testing::Test {
 protected:
  Trim() {
    char name[] = "/var/tmp/heapspy-test-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~Trim() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "AddressSanitizer brings its own allocator";
#endif
    if (!recorder_is_there()) GTEST_SKIP() << "libheapspy.so is not built";
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    ASSERT_EQ(::dup2(ready[1], 9), 9);
    process::EnvironmentChanges environment;
    if (recorded_) environment = {{"LD_PRELOAD", bin_folder() + "/../lib/libheapspy.so"}, {"HEAPSPY_OUT", folder_}};
    pid_ = process::start_child({{std::filesystem::read_symlink("/proc/self/exe"), "--gtest_also_run_disabled_tests",
                                  "--gtest_filter=Victim.DISABLED_HoldsATrimmableHeap"},
                                 environment,
                                 process::ChildOutput::discard});
    ::close(9);
    ::close(ready[1]);
    char byte;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1) << "the victim ended";
    ::close(ready[0]);
  }
  json trim() const {
    const Ran ran = heapspy({"trim", std::to_string(pid_), "--json", "--timeout", "120", "--watch", "0"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran.status == 0 ? json::parse(ran.out) : json();
  }

  std::string folder_;
  bool recorded_ = true;
  pid_t pid_ = 0;
};

TEST_F(Trim, ReturnsWhatItPredicts) {
  const json first = trim();
  ASSERT_TRUE(first.is_object());
  EXPECT_EQ(first["schema"], "heapspy.trim/1");
  EXPECT_EQ(first["pid"], pid_);
  EXPECT_EQ(first["method"], "recorder");
  EXPECT_EQ(first["rss_source"], "snapshots");
  const auto predicted = first["predicted_bytes"].get<std::int64_t>(), returned = first["returned_bytes"].get<std::int64_t>();
  EXPECT_GE(predicted, 30 << 20);
  EXPECT_NEAR(static_cast<double>(returned), static_cast<double>(predicted), 0.01 * static_cast<double>(predicted));
  EXPECT_EQ(first["rss_before_bytes"].get<std::int64_t>() - first["rss_after_bytes"].get<std::int64_t>(), returned);
  EXPECT_GT(first["duration_s"], 0);
  ASSERT_FALSE(first["arenas"].empty());
  EXPECT_EQ(first["arenas"][0]["kind"], "main");

  const json again = trim();
  EXPECT_LT(again["predicted_bytes"], 1 << 20);
  EXPECT_LT(again["returned_bytes"], 1 << 20);
}

TEST_F(Trim, OfAProcessWhoseTraceWasDeletedPredictsNothingAndMeasuresTheRest) {
  for (const auto& file : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(file);
  const Ran ran = heapspy({"trim", std::to_string(pid_), "--json", "--timeout", "120", "--watch", "0"});
  if (ran.status == 4) GTEST_SKIP() << ran.err;  // /proc/PID/map_files needs rights of its own
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json trimmed = json::parse(ran.out);
  EXPECT_TRUE(trimmed["predicted_bytes"].is_null());
  EXPECT_EQ(trimmed["rss_source"], "smaps_rollup");
  EXPECT_GE(trimmed["returned_bytes"], 30 << 20);
}

TEST_F(Trim, InspectJoinsTheTraceOfARecordedProcessSoThatItsBlocksHaveSites) {
  const Ran ran = heapspy({"inspect", std::to_string(pid_), "--json"});
  if (ran.status == 4) GTEST_SKIP() << ran.err;
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json found = json::parse(ran.out);
  ASSERT_TRUE(found["trace"].is_object()) << found["notes"];
  EXPECT_THAT(found["trace"]["path"].get<std::string>(), testing::StartsWith(folder_));
  EXPECT_GT(found["trace"]["known_blocks"], found["trace"]["unknown_blocks"]);
  ASSERT_FALSE(found["sites"].empty());
  std::uint64_t pinned = 0;
  for (const json& site : found["sites"]) {
    EXPECT_FALSE(site["frames"].empty());
    EXPECT_GT(site["live_blocks"], 0);
    pinned += site["pinned_bytes"].get<std::uint64_t>();
  }
  EXPECT_LE(pinned, found["arenas"][0]["pinned_bytes"]);
  const json& plug = found["arenas"][0]["plug"];  // the last block, which was not freed
  ASSERT_TRUE(plug["site"].is_object()) << plug;
  EXPECT_EQ(plug["site"]["size_bytes"], kBlockBytes);
  EXPECT_FALSE(plug["site"]["frames"].empty());
  const json alone = json::parse(heapspy({"inspect", std::to_string(pid_), "--json", "--no-trace"}).out);
  EXPECT_TRUE(alone["trace"].is_null() && alone["sites"].is_null() && alone["arenas"][0]["plug"]["site"].is_null());
  const Ran text = heapspy({"inspect", std::to_string(pid_)});
  EXPECT_THAT(text.out, testing::HasSubstr("\nBy site "));
  EXPECT_THAT(text.out, testing::HasSubstr("\n  plug of main: 1000 B, "));
}

TEST_F(Trim, TopShowsARecordedProcessAndListsIt) {
  const Ran frame = heapspy({"top", std::to_string(pid_)});
  EXPECT_EQ(frame.status, 0) << frame.err;
  EXPECT_THAT(frame.out,
              testing::ContainsRegex("   pid " + std::to_string(pid_) + "\nRSS .* 1 thread .*\nmode full .* 0 events lost"));
  EXPECT_THAT(frame.out, testing::HasSubstr("trace words/s"));
  const Ran list = heapspy({"top"});
  EXPECT_EQ(list.status, 0) << list.err;
  EXPECT_THAT(list.out, testing::ContainsRegex(" " + std::to_string(pid_) + " +full "));
}

// The same victim without a recorder.
class TrimFromOutside : public Trim {
 protected:
  TrimFromOutside() { recorded_ = false; }
};

TEST_F(TrimFromOutside, ReturnsWhatItPredicts) {
  const Ran ran = heapspy({"trim", std::to_string(pid_), "--json", "--watch", "0.001"});
  if (ran.status == 4) GTEST_SKIP() << ran.err;
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json first = json::parse(ran.out);
  EXPECT_EQ(first["schema"], "heapspy.trim/1");
  EXPECT_EQ(first["method"], "ptrace");
  EXPECT_GE(first["predicted_bytes"], 30 << 20);
  EXPECT_EQ(first["returned_bytes"], first["predicted_bytes"]);
  EXPECT_EQ(first["anonymous_before_bytes"].get<std::int64_t>() - first["anonymous_after_bytes"].get<std::int64_t>(),
            first["returned_bytes"]);
  EXPECT_GE(first["madvise_calls"], 1);
  EXPECT_TRUE(first["faults_after"]["minor"].is_number());
  EXPECT_EQ(first["arenas"][0]["kind"], "main");
}

TEST_F(TrimFromOutside, WhileAllOthersStandStillReturnsExactlyWhatItPredicts) {
  const Ran ran = heapspy({"trim", std::to_string(pid_), "--json", "--watch", "0", "--still"});
  if (ran.status == 4) GTEST_SKIP() << ran.err;
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json still = json::parse(ran.out);
  EXPECT_EQ(still["method"], "ptrace");
  EXPECT_GE(still["predicted_bytes"], 30 << 20);
  EXPECT_EQ(still["returned_bytes"], still["predicted_bytes"]);
  EXPECT_GT(still["still_s"], still["duration_s"]);
  const Ran wrong = heapspy({"trim", std::to_string(pid_), "--still", "--method", "jcmd"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(wrong.err, "heapspy: --still is for --method ptrace; jcmd needs other threads of the process\n");
}

TEST_F(TrimFromOutside, TopShowsItWithoutRates) {
  const Ran frame = heapspy({"top", std::to_string(pid_), "--once"});
  EXPECT_EQ(frame.status, 0) << frame.err;
  EXPECT_THAT(frame.out, testing::HasSubstr("not recorded: no allocation rates"));
  EXPECT_EQ(heapspy({"top", "2147483646"}).status, 4);
}

TEST_F(TrimFromOutside, ByAMethodThatIsNotThereIsRefusedInOneLine) {
  const std::string pid = std::to_string(pid_);
  const Ran java = heapspy({"trim", pid, "--method", "jcmd"});
  EXPECT_EQ(java.status, 4);
  EXPECT_EQ(java.err, "heapspy: process " + pid + " is no JVM that listens to jcmd; leave --method away\n");
  const Ran recorder = heapspy({"trim", pid, "--method", "recorder"});
  EXPECT_EQ(recorder.status, 4);
  EXPECT_EQ(recorder.err, "heapspy: process " + pid +
                              " does not run under the recorder; start it with heapspy record, or with "
                              "LD_PRELOAD=libheapspy.so\n");
  EXPECT_EQ(heapspy({"trim", pid, "--method", "force"}).status, 2);
}

TEST_F(Trim, WaitsForNobodyWhoIsStopped) {
  ::kill(pid_, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
  const Ran ran = heapspy({"trim", std::to_string(pid_)});
  ::kill(pid_, SIGCONT);
  EXPECT_EQ(ran.status, 4);
  const std::string pid = std::to_string(pid_);
  EXPECT_EQ(ran.err, "heapspy: process " + pid + " is stopped; let it go on with kill -CONT " + pid + "\n");
}

TEST_F(Trim, OfAProcessThatADebuggerHoldsNamesTheDebugger) {
  const process::LiveProcess target(pid_);
  std::optional<process::StoppedProcess> debugger;
  try {
    debugger.emplace(target);
  } catch (const process::TargetError& error) {
    GTEST_SKIP() << error.what();
  }
  const Ran ran = heapspy({"trim", std::to_string(pid_)});
  EXPECT_EQ(ran.status, 4);
  EXPECT_EQ(ran.err, "heapspy: process " + std::to_string(pid_) + " stands still, held by process " +
                         std::to_string(::getpid()) + " (a debugger?); let it go on there\n");
}

}  // namespace
}  // namespace heapspy::cli_test
