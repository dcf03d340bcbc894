// What control groups grant of CPU time, from files as kernels and container runtimes leave them.
#include "analyzer/process/cpu_quota.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace heapspy::process {
namespace {

TEST(CpuQuota, IsTheTightestOfItsGroupAndThoseAbove) {
  EXPECT_EQ(cpu_quota({{"cpu.max", "150000 100000\n"}}), 1.5);
  EXPECT_EQ(cpu_quota({{"cpu.max", "max 100000"}}), std::nullopt);
  EXPECT_EQ(cpu_quota({{"cpu.max", "max 100000"}, {"../cpu.max", "200000 100000"}, {"../../cpu.max", "25000 50000"}}), 0.5);
  EXPECT_EQ(cpu_quota({{"cpu.cfs_quota_us", "400000\n"}, {"cpu.cfs_period_us", "100000\n"}}), 4.0);
  EXPECT_EQ(cpu_quota({{"cpu.cfs_quota_us", "-1"}, {"cpu.cfs_period_us", "100000"}}), std::nullopt);
  EXPECT_EQ(cpu_quota({{"cpu.cfs_quota_us", "-1"},
                       {"cpu.cfs_period_us", "100000"},
                       {"../cpu.cfs_quota_us", "50000"},
                       {"../cpu.cfs_period_us", "20000"}}),
            2.5);
}

TEST(CpuQuota, OfFilesThatSayNothingIsNotKnown) {
  EXPECT_EQ(cpu_quota(CgroupFiles{}), std::nullopt);
  EXPECT_EQ(cpu_quota({{"cpu.max", ""}}), std::nullopt);
  EXPECT_EQ(cpu_quota({{"cpu.max", "100000"}}), std::nullopt);
  EXPECT_EQ(cpu_quota({{"cpu.max", "100000 0"}}), std::nullopt);
  EXPECT_EQ(cpu_quota({{"cpu.max", "words words"}}), std::nullopt);
  EXPECT_EQ(cpu_quota({{"cpu.cfs_quota_us", "100000"}}), std::nullopt);
  EXPECT_EQ(cpu_quota({{"cpu.max.burst", "1 2"}, {"memory.max", "3 4"}}), std::nullopt);
}

class Groups : public testing::Test {
 protected:
  Groups() : root("/tmp/heapspy-groups-" + std::to_string(getpid())) {}
  ~Groups() override { std::filesystem::remove_all(root); }
  void file(const std::string& path, const std::string& content) const {
    const std::filesystem::path whole = root + "/" + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << content;
  }
  const std::string root;
};

TEST_F(Groups, OfVersion2AreReadUpToTheRoot) {
  file("pods/pod7/box/cpu.max", "max 100000\n");
  file("pods/pod7/cpu.max", "300000 100000\n");
  const CgroupFiles files = cpu_limit_files("0::/pods/pod7/box\n", root);
  EXPECT_EQ(files, (CgroupFiles{{"cpu.max", "max 100000\n"}, {"../cpu.max", "300000 100000\n"}}));
  EXPECT_EQ(cpu_quota(files), 3.0);
}

TEST_F(Groups, OfVersion1AreThoseOfTheCpuController) {
  file("cpu/docker/box/cpu.cfs_quota_us", "150000\n");
  file("cpu/docker/box/cpu.cfs_period_us", "100000\n");
  file("cpuset/docker/box/cpu.cfs_quota_us", "1\n");
  file("box/cpu.max", "1 100000\n");
  const std::string text = "12:cpuset:/docker/box\n5:cpuacct,cpu:/docker/box\n3:memory:/else\n0::/box\n";
  EXPECT_EQ(cpu_quota(cpu_limit_files(text, root)), 1.5);
}

// /proc/self/cgroup names the group as the host sees it; what is mounted begins with the container's own.
TEST_F(Groups, OfAContainerThatSeesItsOwnOnlyAreAtTheRoot) {
  file("cpu/cpu.cfs_quota_us", "250000\n");
  file("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(cpu_limit_files("4:cpu,cpuacct:/docker/0123abcd\n", root)), 2.5);
}

TEST_F(Groups, ThatAreNotThereLimitNothing) {
  EXPECT_TRUE(cpu_limit_files("", root).empty());
  EXPECT_TRUE(cpu_limit_files("a line\n1:name\n0::/\n", root).empty());
}

}  // namespace
}  // namespace heapspy::process
