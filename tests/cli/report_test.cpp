// `heapspy report` over several traces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
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

TEST_F(ReportOfSeveral, IsUnreadableWhereNoneIs) {
  test::TemporaryFile one("one"), two("two");
  const Ran ran = heapspy({"report", one.path(), two.path()});
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.err, HasSubstr("none of 2 traces can be read"));
  EXPECT_EQ(ran.out, "");
}

}  // namespace
}  // namespace heapspy::cli_test
