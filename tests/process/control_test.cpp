// heapspy/control.h from within, `heapspy mark` and `heapspy snapshot` from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "analyzer/report/report_json.h"
#include "analyzer/report/report_text.h"
#include "analyzer/trace/reader.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

std::vector<std::string> mark_texts(const report::Report& report) {
  std::vector<std::string> texts;
  for (const report::MarkReport& mark : report.marks) texts.push_back(mark.kind == "mark" ? mark.text : mark.kind);
  return texts;
}

void expect_marks(const std::string& program) {
  const Compared compared = expect_unchanged({.command = {victim(program)}});
  EXPECT_EQ(compared.plain.out, "marked\n");
  const report::Report report = compared.recording->report();
  expect_whole(report);
  EXPECT_THAT(mark_texts(report), ElementsAre("first", "\033[31mred\n<b>\xff", std::string(217, 'x'), "", "from a thread",
                                              "paused", "while paused", "resumed", "last"));
  for (std::size_t i = 1; i < report.marks.size(); i++) EXPECT_GE(report.marks[i].time_s, report.marks[i - 1].time_s);
  const report::ThreadReport thread = thread_named(report, "t-marks");
  EXPECT_EQ(report.marks[4].thread, thread.id);
  EXPECT_EQ(thread.allocations, 111u);  // what came while it was paused is not there
  EXPECT_EQ(thread.frees, 111u);
}

TEST(ControlHeader, MarksPausesAndSnapshotsStandInTheReport) { expect_marks("marks"); }
TEST(ControlHeader, WorksInCodeThatIsNotPositionIndependent) { expect_marks("marks_fixed"); }

TEST(ControlHeader, TakesASnapshot) {
  Recording run({.command = {victim("marks")}, .environment = {{"HEAPSPY_SNAPSHOT", "off"}}});
  run.finish();
  const trace::Reader reader(run.trace());
  ASSERT_EQ(reader.snapshots(), 1u);
  EXPECT_EQ(reader.snapshot_reason(0), format::SnapshotReason::requested);
}

TEST(ControlHeader, IsHarmlessWhereNothingIsRecorded) {
  Recording run({.command = {victim("marks")}, .environment = {{"HEAPSPY_MODE", "off"}}});
  EXPECT_EQ(run.finish().out, "marked\n");
  EXPECT_TRUE(run.traces().empty());
}

TEST(ControlHeader, WorksInEveryMode) {
  for (const char* mode : {"ring", "sample", "count"}) {
    SCOPED_TRACE(mode);
    Recording run({.command = {victim("marks")}, .environment = {{"HEAPSPY_MODE", mode}}});
    EXPECT_EQ(run.finish().out, "marked\n");
    EXPECT_EQ(run.finish().err, "");
    EXPECT_EQ(run.finish().exit_status, 0);
  }
}

TEST(ControlHeader, TextOfMarksIsEscaped) {
  Recording run({.command = {victim("marks")}});
  run.finish();
  const report::Report report = run.report();
  std::string text;
  for (const std::string& line : report::report_text(report, {})) text += line + "\n";
  EXPECT_THAT(text, HasSubstr("\\x1b[31mred\\n<b>\\xff  (marks)\n"));
  EXPECT_THAT(text, HasSubstr("The program paused recording 1 time"));
  const nlohmann::json json = nlohmann::json::parse(report::dump_json(report::report_json(report)));
  EXPECT_EQ(json["marks"][0]["text"], "first");
  EXPECT_EQ(json["marks"][0]["kind"], "mark");
  EXPECT_TRUE(json["marks"][0]["thread"].is_number());
}

Outcome heapspy(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), heapspy_program());
  return Recording({.command = std::move(arguments), .recorded = false}).finish();
}

void expect_served(const std::string& program, const std::string& mode) {
  Recording run({.command = {victim(program), mode}, .environment = {{"HEAPSPY_SNAPSHOT", "off"}}, .talks = true});
  run.read_line();
  const std::string pid = std::to_string(run.pid());
  EXPECT_EQ(heapspy({"mark", pid, "\033]0;title\a before"}), (Outcome{.exit_status = 0, .signal = 0, .out = "", .err = ""}));
  const Outcome taken = heapspy({"snapshot", pid, "--json"});
  EXPECT_EQ(taken.exit_status, 0) << taken;
  EXPECT_EQ(heapspy({"mark", pid, std::string(79, 'y')}).exit_status, 0);
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  expect_whole(report);
  ASSERT_GE(report.marks.size(), 2u);
  const report::MarkReport &before = report.marks.end()[-2], &after = report.marks.end()[-1];
  EXPECT_EQ(before.text, "\033]0;title\a before");
  EXPECT_FALSE(before.thread.has_value());
  EXPECT_EQ(after.text, std::string(79, 'y'));
  const nlohmann::json json = nlohmann::json::parse(taken.out);
  EXPECT_EQ(json["schema"], "heapspy.snapshot/1");
  EXPECT_EQ(json["pid"], run.pid());
  EXPECT_EQ(json["trace"], run.trace());
  EXPECT_GT(json["rss_bytes"], 1 << 20);
  EXPECT_GE(json["time_s"], before.time_s);
  EXPECT_LE(json["time_s"], after.time_s);
}

TEST(ControlFromOutside, IsServedByASingleThreadThatAllocates) { expect_served("holds_trimmable", "loop"); }
TEST(ControlFromOutside, IsServedByTheHelperOfAnIdleProcess) { expect_served("holds_trimmable", "silent"); }
TEST(ControlFromOutside, IsServedByAProgramThatPausedAndWentOn) { expect_served("marks", "wait"); }

TEST(ControlFromOutside, OfARingFreezesACopyAndNamesIt) {
  Recording run({.command = {victim("marks"), "wait"}, .environment = {{"HEAPSPY_MODE", "ring"}}, .talks = true});
  run.read_line();
  const Outcome taken = heapspy({"snapshot", std::to_string(run.pid()), "--json"});
  ASSERT_EQ(taken.exit_status, 0) << taken;
  const nlohmann::json json = nlohmann::json::parse(taken.out);
  EXPECT_GT(json["rss_bytes"], 1 << 20);
  const trace::Reader copy(json["trace"].get<std::string>());
  EXPECT_EQ(copy.header().frozen_by, format::Trigger::requested);
  EXPECT_EQ(run.finish().exit_status, 0);
}

void expect_refused(const Outcome& outcome, const std::string& line) {
  EXPECT_EQ(outcome.exit_status, 4);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, MatchesRegex("heapspy: " + line + "\n"));
}

TEST(ControlFromOutside, OfAProgramThatRefusesItOrIsNotRecordedIsOneLine) {
  Recording refusing({.command = {victim("marks"), "wait"}, .environment = {{"HEAPSPY_CONTROL", "off"}}, .talks = true});
  refusing.read_line();
  Recording plain({.command = {victim("marks"), "wait"}, .recorded = false, .talks = true});
  plain.read_line();
  for (const std::vector<std::string>& command : {std::vector<std::string>{"snapshot"}, {"mark"}}) {
    const auto ask = [&](pid_t pid) {
      std::vector<std::string> arguments = {command[0], std::to_string(pid)};
      if (command[0] == "mark") arguments.push_back("text");
      return heapspy(arguments);
    };
    expect_refused(ask(refusing.pid()), "process [0-9]+ was started with HEAPSPY_CONTROL=off; its recorder obeys nobody");
    expect_refused(ask(plain.pid()),
                   "process [0-9]+ does not run under the recorder; start it with heapspy record, or with "
                   "LD_PRELOAD=libheapspy.so");
    expect_refused(ask(2147483646), "there is no process 2147483646; ps -e lists those that are");
  }
}

TEST(ControlFromOutside, AMarkThatIsTooLongIsWrongUsage) {
  const Outcome outcome = heapspy({"mark", "1", std::string(80, 'y')});
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("its 80 bytes are too many; a mark holds at most 79"));
}

// No environment tells it, and it overrides what one says.
TEST(Mallopt, OfTheProgramIsSeenAndChangesNothing) {
  const Compared compared = expect_unchanged({.command = {victim("sets_mallopt")}, .environment = {{"MALLOC_ARENA_MAX", "4"}}});
  EXPECT_EQ(compared.plain.out, "1 1 0 1 6\n");
  const report::Report report = compared.recording->report();
  ASSERT_EQ(report.marks.size(), 2u);
  EXPECT_EQ(report.marks[0].text, "mallopt(M_ARENA_MAX, 2)");
  EXPECT_EQ(report.marks[1].text, "mallopt(M_TRIM_THRESHOLD, 536870912)");
  EXPECT_EQ(report::arena_max_setting(report), "mallopt(M_ARENA_MAX, 2)");
  EXPECT_EQ(report::trim_threshold_setting(report), "mallopt(M_TRIM_THRESHOLD, 536870912)");
}

}  // namespace
}  // namespace heapspy::test
