// `heapspy compare` on programs of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

TEST(Compare, KeepsATraceOfOneMoreRunOfEachSettingForDiff) {
  const std::filesystem::path folder = testing::TempDir() + "heapspy-compare-" + std::to_string(::getpid());
  std::filesystem::remove_all(folder);
  const Outcome shown = run_plain({heapspy_program(), "compare", "--with", "default,arena_max=1", "--record", folder.string(),
                                   "--json", "--", victim("known_counts")});
  ASSERT_EQ(shown.exit_status, 0) << shown;
  EXPECT_EQ(nlohmann::json::parse(shown.out)["runs"].size(), 2u) << "the recorded runs are none that were measured";
  std::vector<std::string> traces;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) traces.push_back(entry.path().string());
  std::sort(traces.begin(), traces.end());
  ASSERT_EQ(traces.size(), 2u);
  EXPECT_TRUE(std::filesystem::path(traces[0]).filename().string().starts_with("arena_max=1.known_counts.")) << traces[0];
  EXPECT_TRUE(std::filesystem::path(traces[1]).filename().string().starts_with("default.known_counts.")) << traces[1];
  const Outcome diff = run_plain({heapspy_program(), "diff", traces[1], traces[0]});
  EXPECT_EQ(diff.exit_status, 0) << diff;
  EXPECT_NE(diff.out.find("MALLOC_ARENA_MAX: not set → 1"), std::string::npos) << diff;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace heapspy::test
