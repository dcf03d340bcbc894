// Java's methods in call stacks: in their order, between the native code that they call and that calls them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "tests/process/java.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

Launch launch_of(const std::string& java, const std::vector<std::string>& flags, const std::string& turns) {
  Launch launch{.command = {java, "-Xmx64m", "-XX:+UseSerialGC"}};
  launch.command.insert(launch.command.end(), flags.begin(), flags.end());
  launch.command.insert(launch.command.end(), {victim_source("Methods.java"), turns});
  return launch;
}

std::vector<std::string> methods_of(const report::SiteReport& site) {
  std::vector<std::string> methods;
  for (const report::FrameReport& frame : site.frames)
    if (frame.is_java) methods.push_back(frame.function);
  return methods;
}

struct Seen {
  std::uint64_t allocations = 0;  // from stacks whose Java methods begin as expected
  std::uint64_t others = 0;       // from other stacks with the innermost method
  std::string other;
};
Seen seen(const report::Report& report, const std::vector<std::string>& innermost) {
  Seen seen;
  for (const report::SiteReport& site : report.sites) {
    std::vector<std::string> methods = methods_of(site);
    if (methods.empty() || methods[0] != innermost[0]) continue;
    const bool as_expected =
        methods.size() > innermost.size() && std::equal(innermost.begin(), innermost.end(), methods.begin());
    (as_expected ? seen.allocations : seen.others) += site.allocations;
    if (!as_expected)
      for (const std::string& each : methods) seen.other += each + "\n";
  }
  return seen;
}

const std::vector<std::string> kAsked = {"jdk.internal.misc.Unsafe.allocateMemory0(long)",
                                         "jdk.internal.misc.Unsafe.allocateMemory(long)",
                                         "sun.misc.Unsafe.allocateMemory(long)",
                                         "Methods.ask(int)",
                                         "Methods.askDeeply(int, int)",
                                         "Methods.askDeeply(int, int)",
                                         "Methods.askDeeply(int, int)",
                                         "Methods.askDeeply(int, int)",
                                         "Methods.main(String[])"};
const std::vector<std::string> kOpened = {"java.util.zip.Inflater.init(boolean)", "java.util.zip.Inflater.<init>(boolean)",
                                          "Methods.open(int)", "Methods.main(String[])"};

TEST(Java, MethodsOfTheInterpreterStandInStacksInTheirOrder) {
  HEAPSPY_NEEDS_JAVA_STACKS();
  for (const std::string& java : jvms()) {
    SCOPED_TRACE(java);
    Recording run(launch_of(java, {"-Xint"}, "500"));
    EXPECT_EQ(run.finish().out, "asked 500\n") << run.finish();
    const report::Report report = run.report();
    const Seen asked = seen(report, kAsked), opened = seen(report, kOpened);
    EXPECT_EQ(asked.allocations, 500u) << asked.other;
    EXPECT_EQ(opened.allocations % 300, 0u) << opened.other;
    EXPECT_GE(opened.allocations, 300u) << opened.other;
    for (const report::SiteReport& site : report.sites)
      EXPECT_TRUE(methods_of(site).empty() || site.stack_end == "whole" || site.stack_end == "depth") << site.stack_end;
  }
}

TEST(Java, MethodsOfCompiledCodeStandInStacks) {
  HEAPSPY_NEEDS_JAVA_STACKS();
  for (const std::string& java : jvms()) {
    SCOPED_TRACE(java);
    Recording run(launch_of(
        java,
        {"-Xcomp", "-XX:-Inline", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,Methods::*",
         "-XX:CompileCommand=compileonly,sun.misc.Unsafe::*", "-XX:CompileCommand=compileonly,jdk.internal.misc.Unsafe::*"},
        "3000"));
    EXPECT_EQ(run.finish().out, "asked 3000\n") << run.finish();
    const Seen asked = seen(run.report(), kAsked);
    EXPECT_EQ(asked.allocations, 3000u) << asked.other;
  }
}

// Malloc's chunks, the kernel's pages and what the JVM counts itself are held against each other.
TEST(Java, AJvmThatTracksItsMemoryIsAskedByInspect) {
  const std::string jar = std::string(HEAPSPY_EXAMPLES) + "/zip_threads.jar";
  if (jvms().empty() || !std::filesystem::exists(jar))
    GTEST_SKIP() << "no JDK is installed, or was when the examples were built";
  Recording run({.command = {jvms()[0], "-Xmx64m", "-XX:+UseSerialGC", "-XX:NativeMemoryTracking=summary", "-jar", jar, "1",
                             "1", "--wait"},
                 .recorded = false,
                 .talks = true});
  while (run.read_line().find("waits for a line") == std::string::npos) {
  }
  const std::string pid = std::to_string(run.pid());
  Recording inspect({.command = {heapspy_program(), "inspect", pid, "--json"}, .recorded = false});
  if (inspect.finish().exit_status == 4) GTEST_SKIP() << inspect.finish().err;
  const auto found = nlohmann::json::parse(inspect.finish().out);
  run.write_line("");
  run.read_rest();
  const auto& jvm = found["jvm"];
  const auto& memory = jvm["native_memory"];
  ASSERT_TRUE(memory.is_object()) << jvm;
  std::uint64_t committed = 0, in_use = 0, beyond = 0;
  for (const auto& tag : memory["tags"]) committed += tag["committed_bytes"].get<std::uint64_t>();
  for (const auto& arena : found["arenas"]) in_use += arena["in_use_bytes"].get<std::uint64_t>();
  for (const auto& part : jvm["beyond"]["parts"]) beyond += part["bytes"].get<std::uint64_t>();
  EXPECT_LE(committed, memory["committed_bytes"].get<std::uint64_t>() + memory["tags"].size() * 1024);  // rounded to KiB
  EXPECT_GE(committed + memory["tags"].size() * 1024, memory["committed_bytes"]);
  EXPECT_GT(in_use, memory["malloc_bytes"]);  // zlib's, and headers
  EXPECT_EQ(beyond, jvm["beyond"]["bytes"]);
  EXPECT_EQ(jvm["beyond"]["not_resident_bytes"].get<std::int64_t>(), static_cast<std::int64_t>(beyond) +
                                                                         memory["committed_bytes"].get<std::int64_t>() -
                                                                         found["rss"]["total_bytes"].get<std::int64_t>());
}

TEST(Java, IsLeftOutWhereItIsAskedTo) {
  HEAPSPY_NEEDS_JAVA_STACKS();
  Launch launch = launch_of(jvms()[0], {}, "500");
  launch.environment = {{"HEAPSPY_JAVA", "off"}, {"HEAPSPY_LOG", "info"}};
  Recording run(launch);
  EXPECT_EQ(run.finish().out, "asked 500\n") << run.finish();
  EXPECT_THAT(run.finish().err, testing::Not(HasSubstr("JVM"))) << run.finish();
  for (const report::SiteReport& site : run.report().sites) ASSERT_THAT(methods_of(site), ElementsAreArray<std::string>({}));
}

}  // namespace
}  // namespace heapspy::test
