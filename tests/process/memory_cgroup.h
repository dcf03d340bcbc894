// A memory cgroup of the test's own, of version 1 or 2, where one can be made (as root).
#pragma once
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace heapspy::test {

class MemoryCgroup {
 public:
  MemoryCgroup() {
    const std::filesystem::path one = "/sys/fs/cgroup/memory", two = "/sys/fs/cgroup";
    version_1_ = std::filesystem::exists(one / "memory.limit_in_bytes");
    folder_ = (version_1_ ? one : two) / ("heapspy-test-" + std::to_string(getpid()));
    std::error_code error;
    made_ = std::filesystem::create_directory(folder_, error);
  }
  ~MemoryCgroup() {
    std::error_code error;
    if (made_) std::filesystem::remove(folder_, error);
  }
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;

  bool made() const { return made_; }
  // The calling process, and those it makes from now on.
  void join() const { std::ofstream(folder_ / "cgroup.procs") << getpid() << std::flush; }
  std::uint64_t peak_bytes() const {  // 0: the kernel does not tell
    std::uint64_t peak = 0;
    std::ifstream(folder_ / (version_1_ ? "memory.max_usage_in_bytes" : "memory.peak")) >> peak;
    return peak;
  }
  bool limit(std::uint64_t bytes) const {
    std::ofstream file(folder_ / (version_1_ ? "memory.limit_in_bytes" : "memory.max"));
    file << bytes << std::flush;
    return file.good();
  }

 private:
  std::filesystem::path folder_;
  bool version_1_ = false, made_ = false;
};

}  // namespace heapspy::test
