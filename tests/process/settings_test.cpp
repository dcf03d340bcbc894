// HEAPSPY_… as the recorder reads them, and the lines that it says about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "analyzer/trace/reader.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

// The name of the only file that the program leaves in its folder, for an HEAPSPY_OUT.
std::string name_of_trace(const std::string& out) {
  Recording run({.command = {victim("says"), "hello"}, .to_traces_folder = false, .environment = {{"HEAPSPY_OUT", out}}});
  EXPECT_EQ(run.finish().out, "hello\n");
  EXPECT_EQ(run.finish().err, "");
  std::string name = run.trace();
  EXPECT_TRUE(name.starts_with(run.folder() + "/")) << name;
  name.erase(0, run.folder().size() + 1);
  const std::string pid = std::to_string(run.pid());
  if (const std::size_t at = name.find(pid); at != std::string::npos) name.replace(at, pid.size(), "PID");
  return name;
}

TEST(SettingOut, FillsInPidProgramHostTimeAndPercent) {
  EXPECT_EQ(name_of_trace("a.%p.hspy"), "a.PID.hspy");
  EXPECT_EQ(name_of_trace("%n.hspy"), "says.hspy");
  EXPECT_EQ(name_of_trace("b-%h.hspy"), "b-" + host_name() + ".hspy");
  EXPECT_EQ(name_of_trace("100%%.hspy"), "100%.hspy");
  EXPECT_EQ(name_of_trace("%q%.hspy"), "%q%.hspy");  // no such letter: left as it is
  EXPECT_THAT(name_of_trace("%t.hspy"), MatchesRegex("20[0-9]{6}T[0-9]{6}\\.[0-9]{9}Z\\.hspy"));
}

TEST(SettingOut, IsAFolderWhereItIsOneOrEndsInASlash) {
  EXPECT_THAT(name_of_trace("traces"), MatchesRegex("traces/heapspy\\.says\\.PID\\.20.*Z\\.hspy"));
  EXPECT_THAT(name_of_trace("traces/"), MatchesRegex("traces/heapspy\\.says\\.PID\\.20.*Z\\.hspy"));
}

TEST(SettingOut, ByDefaultIsInTheWorkingFolder) {
  Recording run({.command = {victim("says")}, .to_traces_folder = false});
  run.finish();
  EXPECT_THAT(run.trace(), MatchesRegex(".*/heapspy\\.says\\.[0-9]+\\.20[0-9]{6}T[0-9]{6}\\.[0-9]{9}Z\\.hspy"));
}

TEST(SettingOut, MakesFilesForTheOwnerAlone) {
  Recording run({.command = {victim("says")}, .before_exec = [] { umask(0); }});
  run.finish();
  struct stat status {};
  ASSERT_EQ(stat(run.trace().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

struct BadSetting {
  const char *name, *value, *accepted;
};

void PrintTo(const BadSetting& bad, std::ostream* to) { *to << bad.name; }

class EverySetting : public testing::TestWithParam<BadSetting> {};

TEST_P(EverySetting, ThatCannotBeReadIsNamedInOneLineAndTheProgramRunsOn) {
  const BadSetting& bad = GetParam();
  Recording run({.command = {victim("says"), "hello"}, .environment = {{bad.name, bad.value}}});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(outcome.out, "hello\n");
  EXPECT_EQ(outcome.err, std::string("heapspy: ") + bad.name + "=" + bad.value + ": not understood; accepted: " + bad.accepted +
                             ". Not recording.\n");
  EXPECT_TRUE(run.traces().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Settings, EverySetting,
    testing::Values(BadSetting{"HEAPSPY_MODE", "fulll", "full, ring, sample, count, off"},
                    BadSetting{"HEAPSPY_STACKS", "deep", "auto, none, fp, dwarf, libunwind"},
                    BadSetting{"HEAPSPY_JAVA", "yes", "auto, off"}, BadSetting{"HEAPSPY_TOUCH", "1", "off, on"},
                    BadSetting{"HEAPSPY_CLOCK", "fast", "stamp, event"},
                    BadSetting{"HEAPSPY_DEPTH", "many", "a number of frames from 1 to 1024"},
                    BadSetting{"HEAPSPY_MAX", "8 GB", "a size of at least 64KiB, such as 8GiB"},
                    BadSetting{"HEAPSPY_SNAPSHOT", "peak,every=soon", "off, or some of peak,exit,every=10s"},
                    BadSetting{"HEAPSPY_CHILDREN", "yes", "follow, none"}, BadSetting{"HEAPSPY_CONTROL", "1", "on, off"},
                    BadSetting{"HEAPSPY_LOG", "loud", "off, error, info"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Settings, AnEmptyOutIsNotUnderstood) {
  Recording run({.command = {victim("says"), "hello"}, .to_traces_folder = false, .environment = {{"HEAPSPY_OUT", ""}}});
  EXPECT_EQ(
      run.finish().err,
      "heapspy: HEAPSPY_OUT=: not understood; accepted: a file template with %p %n %h %t %%, or a folder. Not recording.\n");
}

TEST(Settings, AValueWithControlCharactersIsShownWithoutThem) {
  Recording run({.command = {victim("says"), "hello"}, .environment = {{"HEAPSPY_CLOCK", "\033[31mred\n"}}});
  EXPECT_EQ(run.finish().err, "heapspy: HEAPSPY_CLOCK=?[31mred?: not understood; accepted: stamp, event. Not recording.\n");
}

TEST(Settings, SizesTakeEveryUnit) {
  for (const auto& [text, bytes] : std::initializer_list<std::pair<const char*, std::uint64_t>>{{"1048576", 1048576},
                                                                                                {"1048576B", 1048576},
                                                                                                {"1024KiB", 1048576},
                                                                                                {"1024k", 1048576},
                                                                                                {"2MiB", 2097152},
                                                                                                {"2m", 2097152},
                                                                                                {"3GiB", 3221225472},
                                                                                                {"3g", 3221225472}}) {
    Recording run({.command = {victim("says")}, .environment = {{"HEAPSPY_MAX", text}}});
    EXPECT_EQ(run.finish().err, "");
    EXPECT_EQ(trace::Reader(run.trace()).header().max_bytes, bytes) << text;
  }
}

TEST(SettingMode, OffLeavesNoFile) {
  const Compared compared = expect_unchanged({.command = {victim("known_counts")}, .environment = {{"HEAPSPY_MODE", "off"}}});
  EXPECT_TRUE(compared.recording->traces().empty());
}

TEST(SettingOnly, LetsOtherProgramsRunUnrecorded) {
  const std::string script = victim("says") + " one; " + victim("prefork") + " > /dev/null; " + victim("says") + " two";
  Recording run({.command = {"sh", "-c", script}, .environment = {{"HEAPSPY_ONLY", "s[ax]ys"}}});
  EXPECT_EQ(run.finish().out, "one\ntwo\n");
  const std::size_t by_class = run.traces().size();
  Recording again({.command = {"sh", "-c", script}, .environment = {{"HEAPSPY_ONLY", "s?y*"}}});
  EXPECT_EQ(again.finish().out, "one\ntwo\n");
  EXPECT_EQ(again.traces().size(), 2u);
  EXPECT_EQ(by_class, 2u) << "a glob has classes of characters";
  for (const report::Report& report : again.reports()) EXPECT_EQ(report.process.exe, victim("says"));
}

TEST(SettingLog, OffSaysNothing) {
  Recording run({.command = {victim("says"), "hello"}, .environment = {{"HEAPSPY_LOG", "off"}, {"HEAPSPY_CLOCK", "fast"}}});
  EXPECT_EQ(run.finish().out, "hello\n");
  EXPECT_EQ(run.finish().err, "");
  EXPECT_TRUE(run.traces().empty());
}

TEST(SettingLog, InfoSaysWhereTheTraceIs) {
  Recording run({.command = {victim("says"), "hello"}, .environment = {{"HEAPSPY_LOG", "info"}}});
  EXPECT_EQ(run.finish().out, "hello\n");
  EXPECT_EQ(run.finish().err, "heapspy: recording to " + run.trace() + "\n");
}

TEST(SettingSnapshot, OffTakesNone) {
  Recording run({.command = {victim("grows_and_shrinks")}, .environment = {{"HEAPSPY_SNAPSHOT", "off"}}});
  EXPECT_EQ(run.finish().exit_status, 0);
  EXPECT_EQ(trace::Reader(run.trace()).snapshots(), 0u);
}

TEST(SettingSnapshot, EveryTakesThemAsTimePassesAndLeavesTheProgramItsTime) {
  Recording run({.command = {victim("grows_and_shrinks")}, .environment = {{"HEAPSPY_SNAPSHOT", "every=20ms"}}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const trace::Reader reader(run.trace());
  EXPECT_GE(reader.snapshots(), 2u);
  double end = -1;
  for (std::size_t i = 0; i < reader.snapshots(); i++) {
    EXPECT_EQ(reader.snapshot_reason(i), format::SnapshotReason::interval);
    const trace::Snapshot snapshot = reader.snapshot(i);
    // However long one took, the next comes an interval after it (the clocks differ by a little).
    EXPECT_GE(reader.clock().seconds(snapshot.begin) - end, 0.019);
    end = reader.clock().seconds(snapshot.end);
  }
}

}  // namespace
}  // namespace heapspy::test
