// The program as a user meets it: exit statuses, one line per error, help, JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace heapspy::cli_test {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

void expect_error(const std::vector<std::string>& arguments, int status, const std::string& line) {
  const Ran ran = heapspy(arguments);
  EXPECT_EQ(ran.status, status);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.err, "heapspy: " + line + "\n");
}

TEST(Program, HasAnExampleInTheHelpOfEachCommand) {
  const Ran help = heapspy({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.err, "");
  for (const char* command : {"record", "report", "diff", "compare", "replay", "trim", "snapshot", "mark", "maps", "pack",
                              "doctor", "export", "inspect", "top"}) {
    EXPECT_THAT(help.out, HasSubstr(std::string("\n  ") + command + " "));
    const Ran own = heapspy({command, "--help"});
    EXPECT_EQ(own.status, 0) << command;
    EXPECT_THAT(own.out, HasSubstr(std::string("Example:\n  heapspy ") + command + " "));
  }
}

TEST(Program, TellsItsVersion) {
  const Ran ran = heapspy({"--version"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, testing::MatchesRegex("heapspy [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Program, AnswersWrongUsageWithOneLineAndStatus2) {
  expect_error({}, 2,
               "say what to do: one of record, report, diff, compare, replay, trim, snapshot, mark, maps, pack, doctor, "
               "export, inspect, top; heapspy --help explains");
  expect_error({"repport"}, 2,
               "there is no command \"repport\"; there are record, report, diff, compare, replay, trim, snapshot, mark, maps, "
               "pack, doctor, export, inspect, top");
  expect_error({"maps"}, 2, "PID is required; heapspy maps --help explains");
  expect_error({"maps", "12x"}, 2, "PID: \"12x\" is not a process id; ps -e lists them; heapspy maps --help explains");
  expect_error({"maps", "0"}, 2, "PID: \"0\" is not a process id; ps -e lists them; heapspy maps --help explains");
  expect_error({"record"}, 2, "say which program to record, as in: heapspy record java -jar app.jar");
  expect_error({"record", "--mode", "fast", "true"}, 2,
               "--mode: \"fast\" is not one of full, ring, sample, count, off; heapspy record --help explains");
  expect_error({"record", "--max", "lots", "true"}, 2,
               "--max: \"lots\" is not a size of at least 64KiB, such as 8GiB; heapspy record --help explains");
  expect_error({"record", "--snapshot", "peak,often", "true"}, 2,
               "--snapshot: \"peak,often\" is not off, or some of peak,exit,every=10s; heapspy record --help explains");
  expect_error({"compare", "--with", "jemaloc", "--", "true"}, 2,
               "--with: \"jemaloc\" is no setting; there are default, arena_max=N, trim_threshold=SIZE, mmap_threshold=SIZE, "
               "tcache_count=N, jemalloc, tcmalloc, mimalloc, trim=SECONDS");
  expect_error({"report", "--from", "nan", "t.hspy"}, 2,
               "--from: \"nan\" is no number of seconds; heapspy report --help explains");
  expect_error({"report", "--from", "5", "--to", "1", "t.hspy"}, 2,
               "--from 5 --to 1: no moment lies between; --from is the earlier one");
  expect_error({"compare", "--", "heapspy-no-such-program"}, 2, "heapspy-no-such-program: command not found");
  expect_error({"compare"}, 2, "say which program to run, as in: heapspy compare --with default,arena_max=2 -- CMD");
}

TEST(Program, AnswersAnEscapeInAnArgumentOnOneHarmlessLine) {
  const Ran ran = heapspy({"a\x1b[31m\nb"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1);
  EXPECT_EQ(ran.err.find('\x1b'), std::string::npos);
}

TEST(Program, AnswersAProcessThatIsNotThereWithStatus4) {
  expect_error({"maps", "2147483646"}, 4, "there is no process 2147483646; ps -e lists those that are");
  expect_error({"trim", "2147483646"}, 4, "there is no process 2147483646; ps -e lists those that are");
}

TEST(Program, AnswersAFullDiskWithOneLine) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP();
  const Ran ran = heapspy({"record", "--", "sh", "-c", bin_folder() + "/heapspy --help >/dev/full"});
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.err, HasSubstr("heapspy: the output could not be written: No space left on device; check where it goes, or "
                                 "name another file with > FILE\n"));
}

TEST(Maps, GivesEveryKeyOfItsSchema) {
  const Ran ran = heapspy({"maps", std::to_string(::getpid()), "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json map = json::parse(ran.out);
  EXPECT_EQ(map["schema"], "heapspy.maps/1");
  EXPECT_EQ(map["pid"], ::getpid());
  for (const char* key : {"regions_64mib", "mappings"}) EXPECT_TRUE(map[key].is_number_unsigned()) << key;
  EXPECT_GT(map["page_table_bytes"], 0);
  EXPECT_GT(map["scan_s"], 0);
  std::uint64_t count = 0;
  bool main_stack = false;
  for (const json& kind : map["kinds"]) {
    for (const char* key : {"count", "size_bytes", "rss_bytes"}) EXPECT_TRUE(kind[key].is_number_unsigned()) << key;
    EXPECT_TRUE(kind["executable"].is_boolean());
    count += kind["count"].get<std::uint64_t>();
    main_stack = main_stack || kind["kind"] == "main stack";
  }
  EXPECT_EQ(map["mappings"], count);
  EXPECT_TRUE(main_stack);
}

TEST(Compare, GivesEveryKeyOfItsSchemaAndKeepsTheProgramsOutputApart) {
  const Ran ran =
      heapspy({"compare", "--with", "default,arena_max=1", "--repeat", "2", "--json", "--", "sh", "-c", "echo out; exit 3"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json comparison = json::parse(ran.out);
  EXPECT_EQ(comparison["schema"], "heapspy.compare/1");
  EXPECT_EQ(comparison["command"], json({"sh", "-c", "echo out; exit 3"}));
  ASSERT_EQ(comparison["runs"].size(), 4u);
  const char* settings[] = {"default", "arena_max=1", "default", "arena_max=1"};
  for (std::size_t i = 0; i < 4; i++) {
    const json& run = comparison["runs"][i];
    EXPECT_EQ(run["setting"], settings[i]);
    EXPECT_EQ(run["repeat"], 1 + i / 2);
    EXPECT_EQ(run["exit_status"], 3);
    EXPECT_GT(run["peak_rss_bytes"], 0);
    EXPECT_GT(run["end_rss_bytes"], 0);
    EXPECT_GT(run["wall_s"], 0);
    EXPECT_GE(run["cpu_s"], 0);
    EXPECT_GT(run["minor_faults"], 0);
    EXPECT_TRUE(run.contains("lock_waits") && run["lock_waits"].is_null());
    EXPECT_TRUE(run.contains("lock_wait_s"));
  }
  EXPECT_EQ(comparison["runs"][0]["environment"], json::object());
  EXPECT_EQ(comparison["runs"][1]["environment"], json({{"MALLOC_ARENA_MAX", "1"}}));
  EXPECT_TRUE(comparison["advice"].is_string());
}

// ---- record

class Record : public testing::Test {
 protected:
  Record() {
    char name[] = "/var/tmp/heapspy-test-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~Record() override { std::filesystem::remove_all(folder_); }
  void SetUp() override {
    if (!recorder_is_there()) GTEST_SKIP() << "libheapspy.so is not built";
  }
  Ran record(const std::vector<std::string>& program, std::vector<std::string> flags = {},
             const std::vector<std::string>& variables = {}) {
    std::vector<std::string> all = {"record", "--out", folder_};
    all.insert(all.end(), flags.begin(), flags.end());
    all.insert(all.end(), program.begin(), program.end());
    return heapspy(all, variables);
  }
  std::string folder_;
};

TEST_F(Record, PassesTheExitStatusThrough) {
  EXPECT_EQ(record({"sh", "-c", "exit 0"}).status, 0);
  EXPECT_EQ(record({"sh", "-c", "exit 42"}).status, 42);
  EXPECT_EQ(record({"sh", "-c", "kill -9 $$"}).status, 137);
  EXPECT_EQ(record({"sh", "-c", "kill -TERM $$"}).status, 143);
}

TEST_F(Record, AnswersAsAShellWhatCannotBeStarted) {
  const Ran missing = record({"heapspy-no-such-program"});
  EXPECT_EQ(missing.status, 127);
  EXPECT_EQ(missing.err, "heapspy: heapspy-no-such-program: command not found\n");
  const Ran data = record({"/etc/passwd"});
  EXPECT_EQ(data.status, 126);
  EXPECT_EQ(data.err, "heapspy: /etc/passwd: Permission denied\n");
}

TEST_F(Record, LeavesTheProgramsOutputAlone) {
  const Ran ran = record({"--", "sh", "-c", "printf '%s.' \"$@\"", "sh", "[a,b]", "--json", "", "-h"});
  EXPECT_EQ(ran.out, "[a,b].--json..-h.");
}

TEST_F(Record, SaysWhereTheTraceIs) {
  const Ran ran = record({"sh", "-c", "exit 5"});
  EXPECT_EQ(ran.status, 5);
  EXPECT_THAT(ran.err, StartsWith("heapspy: trace " + folder_ + "/heapspy."));
  const std::string path = ran.err.substr(15, ran.err.find(" (") - 15);
  EXPECT_TRUE(std::filesystem::exists(path)) << path;
  const auto lines = std::count(ran.err.begin(), ran.err.end(), '\n');
  EXPECT_GE(lines, 2);
  EXPECT_LE(lines, 6);
}

TEST_F(Record, TakesFlagsAsSettings) {
  const Ran ran =
      record({"sh", "-c", "echo $HEAPSPY_CLOCK $HEAPSPY_MAX $HEAPSPY_SNAPSHOT $HEAPSPY_CHILDREN $HEAPSPY_CONTROL $HEAPSPY_LOG"},
             {"--clock", "event", "--max=1GiB", "--snapshot", "exit,every=10s", "--children", "none", "--control", "off",
              "--log", "off"});
  // The recorder has turned "none" into what keeps children quiet.
  EXPECT_EQ(ran.out, "event 1GiB exit,every=10s skip off off\n");
}

TEST_F(Record, KeepsWhatIsPreloadedAlready) {
  const Ran ran = record({"sh", "-c", "echo $LD_PRELOAD"}, {}, {"LD_PRELOAD=libc.so.6"});
  EXPECT_THAT(ran.out, EndsWith("/libheapspy.so:libc.so.6\n"));
}

TEST_F(Record, SaysWhyThereIsNoTrace) {
  const Ran off = record({"true"}, {"--mode", "off"});
  EXPECT_EQ(off.status, 0);
  EXPECT_EQ(off.err, "heapspy: there is no trace: recording was off (HEAPSPY_MODE=off)\n");
  const Ran other = record({"sh", "-c", "exit 0"}, {"--only", "java*"});
  EXPECT_THAT(other.err, testing::MatchesRegex("heapspy: there is no trace: HEAPSPY_ONLY=java\\* does not match .*\n"));
}

}  // namespace
}  // namespace heapspy::cli_test
