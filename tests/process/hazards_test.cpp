// Hazards that have no better place; tests/HAZARDS.md lists the tests of all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "analyzer/report/report_json.h"
#include "analyzer/trace/reader.h"
#include "tests/process/memory_cgroup.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

// ---- 18: a sandbox

class Sandbox : public testing::TestWithParam<const char*> {};

TEST_P(Sandbox, IsSurvivedAndWhatWasRecordedBeforeIsThere) {
  const Compared compared = expect_unchanged({.command = {victim("sandboxed"), GetParam()}});
  if (compared.plain.exit_status == 77) GTEST_SKIP() << "this kernel has no seccomp";
  EXPECT_EQ(compared.plain.out, "lived\n");
  EXPECT_EQ(compared.plain.exit_status, 0) << "the victim's own calls are forbidden here: " << compared.plain;
  const report::Report report = compared.recording->report();
  EXPECT_GE(thread_named(report, "t-sandbox").allocations, 20000u);
  EXPECT_EQ(report.trace.lost_events, 0u);
  EXPECT_THAT(report.trace.stop.value_or(""), HasSubstr("seccomp"));
  EXPECT_FALSE(report.trace.complete);
  // In strict mode it ends by a bare system call: nobody can know how.
  const nlohmann::json end = report::report_json(report)["process"]["end"];
  EXPECT_EQ(end, std::string(GetParam()) == "strict" ? nlohmann::json() : nlohmann::json("exit"));
}

INSTANTIATE_TEST_SUITE_P(Sandboxes, Sandbox, testing::Values("strict", "filter", "syscall", "threaded"),
                         [](const auto& test) { return std::string(test.param); });

TEST(SandboxThatIsRefused, LeavesTheRecordingWhole) {
  const Compared compared = expect_unchanged({.command = {victim("sandboxed"), "refused"}});
  const report::Report report = compared.recording->report();
  expect_whole(report);
  EXPECT_EQ(thread_named(report, "t-sandbox").allocations, 70000u);
}

// ---- 20: programs that no preloaded library gets into

struct Foreign {
  const char* name;
  std::vector<std::string> compiler;
  const char* why;  // as a regular expression
};
void PrintTo(const Foreign& foreign, std::ostream* to) { *to << foreign.name; }

class ForeignProgram : public testing::TestWithParam<Foreign> {};

TEST_P(ForeignProgram, RunsUnchangedAndRecordAndDoctorSayWhyThereIsNoTrace) {
  const Foreign& foreign = GetParam();
  if (installed(foreign.compiler[0]).empty()) GTEST_SKIP() << foreign.compiler[0] << " is not installed";
  Recording place({.command = {"true"}, .recorded = false});
  place.finish();
  const std::string program = place.file("program");
  std::vector<std::string> compile = foreign.compiler;
  compile.insert(compile.end(), {victim_source("says.c"), "-o", program, "-lpthread"});
  if (run_plain(compile).exit_status != 0) GTEST_SKIP() << foreign.name << ": cannot be compiled here";
  const Outcome plain = run_plain({program, "hello"});
  if (plain.exit_status != 0) GTEST_SKIP() << foreign.name << ": does not run here: " << plain;
  EXPECT_EQ(plain.out, "hello\n");

  const Outcome recorded = run_plain({heapspy_program(), "record", "--out", place.folder(), "--", program, "hello"});
  EXPECT_EQ(recorded.exit_status, 0) << recorded;
  EXPECT_EQ(recorded.out, "hello\n");
  std::string lines = recorded.err;
  // Where the loader of a foreign C library has something to say about LD_PRELOAD, it says it.
  lines.erase(0, lines.rfind("heapspy: "));
  EXPECT_THAT(lines, MatchesRegex("heapspy: there is no trace: " + program + " " + foreign.why + "\n"));

  const Outcome doctor = run_plain({heapspy_program(), "doctor", "--json", "--", program, "hello"});
  EXPECT_EQ(doctor.exit_status, 0) << doctor;
  const nlohmann::json root = nlohmann::json::parse(doctor.out);
  EXPECT_EQ(root["schema"], "heapspy.doctor/1");
  EXPECT_EQ(root["recorded"], false);
  std::string why;
  for (const auto& check : root["checks"])
    if (check["result"] == "why") why = check["text"];
  EXPECT_THAT(why, MatchesRegex(program + " " + foreign.why));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ForeignProgram,
    testing::Values(Foreign{"Static", {"gcc", "-static"}, "is statically linked, so LD_PRELOAD has no effect on it"},
                    Foreign{"For32Bits", {"gcc", "-m32"}, "is a 32-bit program, and libheapspy.so is 64-bit"},
                    Foreign{"OfMusl", {"musl-gcc"}, "is linked to another C library than glibc \\(musl\\)"},
                    Foreign{"OfAddressSanitizer", {"gcc", "-fsanitize=address"}, "is built with AddressSanitizer, .*"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ProgramWithItsOwnAllocator, RunsUnchangedAndRecordAndDoctorSayWhyItsCallsAreNotThere) {
  const std::string program = victim("own_allocator");
  const Outcome plain = run_plain({program});
  Recording record({.command = {heapspy_program(), "record", "--out", "traces", "--", program}, .recorded = false});
  const Outcome& recorded = record.finish();
  EXPECT_EQ(recorded.exit_status, plain.exit_status);
  EXPECT_EQ(recorded.out, plain.out);
  EXPECT_THAT(recorded.err, HasSubstr("heapspy: the trace lacks its allocations: " + program +
                                      " defines malloc itself, so its calls never reach a preloaded library\n"));
  EXPECT_THAT(run_plain({heapspy_program(), "doctor", "--", program}).out,
              HasSubstr("\nwhy   " + program + " defines malloc itself"));
}

// ---- 15: processes one after another

TEST(ManyProcesses, OneAfterAnotherEachLeaveOneTraceAndTheLastCostsWhatTheFirstDid) {
  // Files per process may not grow with their number: each opens, lists and makes the same. scripts/soak-starts has 30 000.
  if (installed("strace").empty()) GTEST_SKIP() << "strace is not installed";
  Recording run({.command = {"strace", "-f", "-qq", "-c", "-o", "calls", "sh", "-c",
                             "for i in 1 2 3 4 5 6 7 8 9 10; do " + victim("says") + " x; done"},
                 .environment = {{"HEAPSPY_ONLY", "says"}}});
  EXPECT_EQ(run.finish().exit_status, 0) << run.finish();
  EXPECT_EQ(run.traces().size(), 10u);
  EXPECT_THAT(content_of(run.file("calls")), HasSubstr("openat"));
}

// ---- 28: what it costs in a container

TEST(ContainerLimit, Of32MiBAboveTheProgramsOwnPeakIsEnoughFor300BusyThreads) {
  const MemoryCgroup group;
  if (!group.made()) GTEST_SKIP() << "no cgroup can be made here";
  const auto join = [&] { group.join(); };
  const std::vector<std::string> command = {victim("many_threads"), "1500"};
  // A cgroup that is full of pages that wait for the disk can be slow.
  Recording plain({.command = command, .recorded = false, .before_exec = join, .limit_s = 250});
  EXPECT_EQ(plain.finish().exit_status, 0);
  const std::uint64_t peak = group.peak_bytes();
  if (peak == 0) GTEST_SKIP() << "the kernel tells no peak of a cgroup";
  ASSERT_TRUE(group.limit(peak + (32u << 20)));
  Recording recorded({.command = command, .before_exec = join, .limit_s = 250});
  EXPECT_EQ(recorded.finish().exit_status, 0) << recorded.finish();
  expect_whole(recorded.report());
}

// ---- 30: names

TEST(HostileNames, OfThreadsAndCommandLinesAreRecordedAsTheyAreAndShownWithoutHarm) {
  const std::string longest(65536, 'a');
  const std::string hostile = "\033[2J<script>\xff\n";
  const Compared compared = expect_unchanged({.command = {victim("hostile_names"), hostile, longest}});
  EXPECT_EQ(compared.plain.out, std::to_string(hostile.size() + longest.size() + 2) + "\n");
  const Recording& run = *compared.recording;
  const report::Report report = run.report();
  expect_whole(report);
  EXPECT_EQ(thread_named(report, std::string("\033]0;x\a</td>\xff\xc3", 14).c_str()).allocations, 7u);
  ASSERT_EQ(report.process.command.size(), 3u);
  EXPECT_EQ(report.process.command[1], hostile);
  EXPECT_EQ(report.process.command[2], longest);
  const Outcome shown = run_plain({heapspy_program(), "report", run.trace()});
  EXPECT_EQ(shown.exit_status, 0);
  for (const char c : shown.out) ASSERT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ') << int{c};
}

// ---- 31: libraries that come and go

TEST(LibrariesThatComeAndGo, LeaveTheProgramUnchangedAndTheCountsExact) {
  const Compared compared =
      expect_unchanged({.command = {victim("reopens"), victim_library("deep"), "./copy.so"}, .limit_s = 60});
  EXPECT_EQ(compared.plain.out, "reopened\n");
  const report::Report report = compared.recording->report();
  expect_whole(report);
  EXPECT_EQ(report.totals.unknown_frees.value_or(99), 0u);
  std::uint64_t blocks = 0;
  for (const report::SizeReport& size : report.sizes)
    if (size.from <= 100 && 100 < size.to) blocks = size.allocations;
  EXPECT_GE(blocks, 50u);
}

// ---- a failure of any system call that the recorder makes

// The names of what the victim's recorded run calls and its plain run does not, or more often.
std::map<std::string, int> system_calls(const std::vector<std::string>& command, bool recorded) {
  Recording run({.command =
                     [&] {
                       std::vector<std::string> all = {"strace", "-f", "-qq", "-o", "calls"};
                       if (recorded) all.insert(all.end(), {"-E", "LD_PRELOAD=" + recorder_library()});
                       all.insert(all.end(), command.begin(), command.end());
                       return all;
                     }(),
                 .recorded = false,
                 .environment = {{"HEAPSPY_OUT", "@/traces/"}}});
  run.finish();
  std::map<std::string, int> calls;
  std::istringstream lines(content_of(run.file("calls")));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t from = line.find_first_not_of("0123456789 ");
    const std::size_t end = line.find('(');
    if (from != std::string::npos && end != std::string::npos && end > from) calls[line.substr(from, end - from)]++;
  }
  return calls;
}

// What the program and the C library call too: a failure there is the program's own.
const std::map<std::string, bool> kRecordersOwn = {
    {"fallocate", true},     {"pwritev", true},  {"getcwd", true},     {"readlink", true}, {"readlinkat", true},
    {"madvise", true},       {"gettid", true},   {"getppid", true},    {"tgkill", true},   {"uname", true},
    {"clock_gettime", true}, {"unlinkat", true}, {"getdents64", true}, {"pwrite64", true}, {"process_vm_readv", true}};

void expect_same_where(const std::string& injection, const Outcome& plain) {
  SCOPED_TRACE(injection);
  Recording run({.command = {"strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=" + injection, "-E",
                             "LD_PRELOAD=" + recorder_library(), victim("changes_itself"), "nothing"},
                 .recorded = false,
                 .environment = {{"HEAPSPY_OUT", "@/traces/"}, {"HEAPSPY_LOG", "off"}},
                 .limit_s = 60});
  EXPECT_EQ(run.finish(), plain);
  for (const std::string& path : run.traces()) EXPECT_NO_THROW(trace::Reader{path}) << path;
}

TEST(FailureOfASystemCall, OfTheRecordersOwnLeavesTheProgramUnchanged) {
  if (installed("strace").empty()) GTEST_SKIP() << "strace is not installed";
  const std::vector<std::string> command = {victim("changes_itself"), "nothing"};
  const Outcome plain = run_plain(command);
  const std::map<std::string, int> recorded = system_calls(command, true);
  if (recorded.empty()) GTEST_SKIP() << "strace cannot trace here";
  int tried = 0;
  for (const auto& [name, count] : recorded) {
    if (!kRecordersOwn.contains(name)) continue;
    expect_same_where(name + ":error=ENOSYS", plain);
    expect_same_where(name + ":error=EPERM:when=1", plain);
    if (name == "pwritev") expect_same_where(name + ":error=EINTR:when=2..3", plain);
    if (name == "pwritev") expect_same_where(name + ":error=ENOSPC:when=3+", plain);
    tried++;
  }
  EXPECT_GE(tried, 4);
}

}  // namespace
}  // namespace heapspy::test
