// `heapspy report` over several traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/support/trace_builder.h"

namespace heapspy::cli_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ReportOfSeveral : public testing::Test {
 protected:
  ReportOfSeveral() {
    char name[] = "/tmp/heapspy-report-XXXXXX";
    folder_ = ::mkdtemp(name);
    for (std::uint32_t pid = 1; pid <= 3; pid++) {
      test::TraceBuilder trace;
      trace.header().pid = pid;
      trace.header().start_realtime_ns += pid;
      trace.thread("main", pid).stamp(1000).malloc(0x1000, 100 * pid);
      trace.write(folder_ + "/" + std::to_string(pid) + ".hspy");
    }
  }
  ~ReportOfSeveral() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(ReportOfSeveral, IsOneOverTheProcessesOfAFolder) {
  test::TemporaryFile foreign("nothing of ours");
  std::filesystem::copy_file(foreign.path(), folder_ + "/foreign.hspy");
  const Ran ran = heapspy({"report", folder_, "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json report = json::parse(ran.out);
  EXPECT_EQ(report["schema"], "heapspy.report/1");
  EXPECT_EQ(report["trace"]["path"], folder_);
  ASSERT_EQ(report["processes"].size(), 3u);
  EXPECT_EQ(report["totals"]["live_bytes"], 600);
  ASSERT_EQ(report["trace"]["unreadable"].size(), 1u);
  EXPECT_EQ(report["trace"]["unreadable"][0]["trace"], folder_ + "/foreign.hspy");
  EXPECT_THAT(heapspy({"report", folder_}).out, HasSubstr("3 processes"));
}

TEST_F(ReportOfSeveral, OfOneTraceIsThatTracesOwn) {
  std::filesystem::remove(folder_ + "/2.hspy");
  std::filesystem::remove(folder_ + "/3.hspy");
  const Ran ran = heapspy({"report", folder_, "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json report = json::parse(ran.out);
  EXPECT_EQ(report["process"]["pid"], 1);
  EXPECT_FALSE(report.contains("processes"));
}

TEST_F(ReportOfSeveral, AnswersWhatOnlyOneProcessHasWithOneLineAndStatus2) {
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--by", "arena"}, {"--at", "3"}}) {
    std::vector<std::string> arguments = {"report", folder_};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Ran ran = heapspy(arguments);
    EXPECT_EQ(ran.status, 2);
    EXPECT_THAT(ran.err, HasSubstr("name one trace for that"));
  }
}

TEST_F(ReportOfSeveral, SaysInOneLineThatTheOutputCouldNotBeWritten) {
  for (const char* flag : {"", " --json"}) {
    const std::string errors = folder_ + "/errors";
    const std::string line = bin_folder() + "/heapspy report " + folder_ + "/1.hspy" + flag + " >/dev/full 2>" + errors;
    const int status = std::system(line.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 3);
    std::ifstream file(errors);
    const std::string said{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(
        said,
        "heapspy: the output could not be written: No space left on device; check where it goes, or name another file with > "
        "FILE\n");
  }
}

TEST_F(ReportOfSeveral, NeverWritesOverATrace) {
  const std::string trace = folder_ + "/1.hspy", other = folder_ + "/2.hspy";
  const auto size = std::filesystem::file_size(trace);
  const Ran ran = heapspy({"report", other, "--html", trace});
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err, "heapspy: " + trace + " is a trace, which would be overwritten: give another name\n");
  EXPECT_EQ(std::filesystem::file_size(trace), size);
}

TEST_F(ReportOfSeveral, IsUnreadableWhereNoneIs) {
  test::TemporaryFile one("one"), two("two");
  const Ran ran = heapspy({"report", one.path(), two.path()});
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.err, HasSubstr("none of 2 traces can be read"));
  EXPECT_EQ(ran.out, "");
}

// One trace with a call stack, and a folder for what is written.
class ReportOfOne : public ReportOfSeveral {
 protected:
  ReportOfOne() {
    test::TraceBuilder trace;
    trace.module(1, "/opt/nowhere/libshop.so", "ABCDEFGH", 0x7f0000000000);
    const std::uint32_t outer = trace.frame(0, 0x7f0000000100, 1), inner = trace.frame(outer, 0x7f0000000200, 1);
    trace.thread("<script>", 1).stamp(1000).stack(inner).malloc(0x1000, 300).stack(outer).malloc(0x2000, 100);
    trace.write(trace_);
  }
  std::string trace_ = folder_ + "/one.trace", page_ = folder_ + "/page.html";
};

TEST_F(ReportOfOne, IsWrittenAsAPage) {
  const Ran ran = heapspy({"report", trace_, "--html", page_});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.out, "");
  const Ran both = heapspy({"report", trace_, "--html", page_ + "2", "--json"}),
            printed = heapspy({"report", trace_, "--html", "-"});
  EXPECT_EQ(json::parse(both.out)["totals"]["live_bytes"], 400);
  std::ifstream file(page_), second(page_ + "2");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
  EXPECT_EQ(page, (std::string{std::istreambuf_iterator<char>(second), {}}));
  EXPECT_EQ(page, printed.out);
  EXPECT_THAT(heapspy({"report", folder_, "--html", "-"}).out, HasSubstr("Threads by name"));
}

TEST_F(ReportOfOne, HasATreeInItsJson) {
  const Ran ran = heapspy({"report", trace_, "--json", "--tree", "down", "--at", "end"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json tree = json::parse(ran.out)["tree"];
  EXPECT_EQ(tree["order"], "down");
  EXPECT_EQ(tree["root"]["bytes"], 400);
  EXPECT_EQ(tree["root"]["children"][0]["name"], "libshop.so+0x100");
  EXPECT_EQ(tree["root"]["children"][0]["children"][0]["bytes"], 300);
  EXPECT_FALSE(json::parse(heapspy({"report", trace_, "--json"}).out).contains("tree"));
}

TEST_F(ReportOfOne, AnswersFlagsThatDoNotGoTogetherAndFoldersThatAreNoneWithOneLineAndStatus2) {
  const std::vector<std::vector<std::string>> wrong = {
      {"report", trace_, "--html", page_, "--by", "site"},
      {"report", trace_, "--html", "-", "--json"},
      {"report", trace_, "--sysroot", "/nowhere/at all"},
      {"report", folder_, "--extra-paths", "/usr:/nowhere/at all"},
      {"export", trace_, "--format", "folded", "--sysroot", "/nowhere/at all"},
      {"diff", trace_, trace_, "--extra-paths", "/nowhere/at all"},
      {"report", folder_, "--thread", "nobody"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    const Ran ran = heapspy(arguments);
    EXPECT_EQ(ran.status, 2) << arguments[0] << " " << arguments[2];
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    if (arguments.back().ends_with("at all")) {
      EXPECT_THAT(ran.err, HasSubstr("/nowhere/at all is no folder; give one that exists"));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(page_));
}

}  // namespace
}  // namespace heapspy::cli_test
