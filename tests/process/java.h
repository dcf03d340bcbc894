// The JDKs of this machine, for tests of Java.
#pragma once
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace heapspy::test {

// Each JDK that is installed, by its java.
inline std::vector<std::string> jvms() {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& each : std::filesystem::directory_iterator("/usr/lib/jvm", error))
    if (!each.is_symlink() && std::filesystem::exists(each.path() / "bin/javac") &&
        std::filesystem::exists(each.path() / "lib/server/libjvm.so"))
      found.push_back(each.path() / "bin/java");
  return found;
}

#if !defined(__x86_64__)
#define HEAPSPY_NEEDS_JAVA_STACKS() GTEST_SKIP() << "call stacks are taken on x86-64"
#else
#define HEAPSPY_NEEDS_JAVA_STACKS() \
  if (jvms().empty()) GTEST_SKIP() << "no JDK is installed"
#endif

}  // namespace heapspy::test
