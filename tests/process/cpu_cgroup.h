// A group with a quota of CPU time, and one in it that has none of its own, of version 1 or 2, where they can be made (as
// root).
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace heapspy::test {

class CpuCgroup {
 public:
  explicit CpuCgroup(double cpus) {
    const std::filesystem::path one = "/sys/fs/cgroup/cpu", two = "/sys/fs/cgroup";
    const bool version_1 = std::filesystem::exists(one / "cpu.cfs_quota_us");
    folder_ = (version_1 ? one : two) / ("heapspy-test-cpu-" + std::to_string(getpid()));
    std::error_code error;
    if (!std::filesystem::create_directory(folder_, error) || !std::filesystem::create_directory(folder_ / "inner", error))
      return;
    std::ofstream file(folder_ / (version_1 ? "cpu.cfs_quota_us" : "cpu.max"));
    file << static_cast<int>(cpus * 100000) << std::flush;  // of a period of 0.1 s, as it is from the start
    made_ = file.good();
  }
  ~CpuCgroup() {
    std::error_code error;
    std::filesystem::remove(folder_ / "inner", error);
    std::filesystem::remove(folder_, error);
  }
  CpuCgroup(const CpuCgroup&) = delete;
  CpuCgroup& operator=(const CpuCgroup&) = delete;

  bool made() const { return made_; }
  void join() const { std::ofstream(folder_ / "inner" / "cgroup.procs") << getpid() << std::flush; }  // the inner one

 private:
  std::filesystem::path folder_;
  bool made_ = false;
};

}  // namespace heapspy::test
