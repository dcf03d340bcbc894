// What `heapspy doctor` says of processes and programs. Those of foreign kinds: tests/process/hazards_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "analyzer/process/child_process.h"
#include "tests/cli/program.h"

namespace heapspy::cli_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

std::string checks_of(const json& root, const std::string& result) {
  std::string texts;
  for (const json& check : root["checks"])
    if (check["result"] == result)
      texts +=
          check["text"].get<std::string>() + (check["fix"].is_null() ? "" : " → " + check["fix"].get<std::string>()) + "\n";
  return texts;
}

class Doctor : public testing::Test {
 protected:
  Doctor() {
    char name[] = "/var/tmp/heapspy-test-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~Doctor() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override {
    if (!recorder_is_there()) GTEST_SKIP() << "libheapspy.so is not built";
  }
  // `cat`, which waits for its stdin: it says that it runs by giving back a byte.
  json examine(process::EnvironmentChanges environment) {
    int to[2], from[2];
    EXPECT_EQ(::pipe(to) + ::pipe(from), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value->c_str(), 1);
      for (int fd = 3; fd < 64; fd++) ::close(fd);
      ::execlp("cat", "cat", nullptr);
      ::_exit(127);
    }
    char byte = 'x';
    EXPECT_EQ(::write(to[1], &byte, 1), 1);
    EXPECT_EQ(::read(from[0], &byte, 1), 1);
    const Ran ran = heapspy({"doctor", "--json", std::to_string(pid_)});
    for (const int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
    EXPECT_EQ(ran.status, 0) << ran.err;
    const json root = json::parse(ran.out);
    EXPECT_EQ(root["schema"], "heapspy.doctor/1");
    EXPECT_EQ(root["pid"], pid_);
    EXPECT_TRUE(root["command"].is_null());
    return root;
  }
  json examine_command(const std::vector<std::string>& command, const std::vector<std::string>& variables = {}) const {
    std::vector<std::string> arguments = {"doctor", "--json", "--"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    const Ran ran = heapspy(arguments, variables);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return json::parse(ran.out);
  }
  std::string library() const { return std::filesystem::canonical(bin_folder() + "/../lib/libheapspy.so"); }

  std::string folder_;
  pid_t pid_ = 0;
};

TEST_F(Doctor, SaysThatARecordedProcessIsAndWhatWouldNotWork) {
  const json root = examine({{"LD_PRELOAD", library()},
                             {"HEAPSPY_OUT", folder_},
                             {"HEAPSPY_MODES", "ring"},
                             {"MALLOC_ARENA_MAX", "2"},
                             {"GLIBC_TUNABLES", "glibc.malloc.arena_max=4:glibc.malloc.arena_maxx=1"}});
  EXPECT_EQ(root["recorded"], true);
  const std::string ok = checks_of(root, "ok"), warn = checks_of(root, "warn");
  EXPECT_THAT(ok, HasSubstr(library() + " is loaded\n"));
  EXPECT_THAT(ok, HasSubstr("recording into " + folder_ + "/heapspy.cat."));
  EXPECT_THAT(ok, HasSubstr("glibc answers malloc\n"));
  EXPECT_THAT(warn, HasSubstr("HEAPSPY_MODES is no setting of the recorder and has no effect → write HEAPSPY_MODE\n"));
  EXPECT_THAT(warn, HasSubstr("MALLOC_ARENA_MAX=2 and glibc.malloc.arena_max are both set; the tunable holds"));
  EXPECT_EQ(checks_of(root, "why"), "");
}

TEST_F(Doctor, SaysWhyAProcessIsNotRecorded) {
  EXPECT_THAT(checks_of(examine({}), "why"), StartsWith("LD_PRELOAD in its environment does not name libheapspy.so → "));
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  const json root =
      examine({{"LD_PRELOAD", library()}, {"HEAPSPY_OUT", folder_}, {"HEAPSPY_CLOCK", "fast"}, {"HEAPSPY_LOG", "off"}});
  EXPECT_EQ(root["recorded"], false);
  EXPECT_THAT(checks_of(root, "why"), HasSubstr("HEAPSPY_CLOCK=fast: not understood; accepted: stamp, event. Not recording."));
}

TEST_F(Doctor, SaysWhetherAProgramWouldBeRecordedWithoutRunningIt) {
  const json well = examine_command({"touch", folder_ + "/ran"}, {"HEAPSPY_OUT=" + folder_});
  EXPECT_EQ(well["recorded"], true);
  EXPECT_EQ(checks_of(well, "why") + checks_of(well, "warn"), "");
  EXPECT_THAT(checks_of(well, "ok"), HasSubstr(" takes " + library() + "\n"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "something ran, or left a trace";
  EXPECT_THAT(checks_of(examine_command({"heapspy-no-such-program"}), "why"),
              HasSubstr("heapspy-no-such-program is not there"));
  EXPECT_THAT(checks_of(examine_command({"true"}, {"HEAPSPY_OUT=/proc/x/"}), "why"),
              HasSubstr("/proc/x/ cannot be written to"));
  EXPECT_THAT(checks_of(examine_command({"true"}, {"HEAPSPY_ONLY=java*", "HEAPSPY_OUT=" + folder_}), "why"),
              HasSubstr("HEAPSPY_ONLY=java* does not match true"));
  EXPECT_THAT(checks_of(examine_command({"true"}, {"MALLOC_TRIM_THRESHOLD=1", "HEAPSPY_OUT=" + folder_}), "warn"),
              HasSubstr("MALLOC_TRIM_THRESHOLD has no effect: glibc's name for it ends in an underscore"));
}

TEST_F(Doctor, AnswersAProcessThatIsNotThereWithStatus4) {
  const Ran ran = heapspy({"doctor", "2147483646"});
  EXPECT_EQ(ran.status, 4);
  EXPECT_EQ(ran.err, "heapspy: there is no process 2147483646; ps -e lists those that are\n");
}

}  // namespace
}  // namespace heapspy::cli_test
