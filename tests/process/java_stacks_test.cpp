// Java's methods in call stacks against what the JVM itself says of the same stack at the same moment: an agent in the JVM
// (victims/java/observer.c) asks JVMTI for the stack, and for a block of a size that tells which stack it was.
//
// HEAPSPY_JAVA_COMMAND puts another program in the place of the test's own: arguments of java, a space between two
// (scripts/check-java-stacks).
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "analyzer/trace/java_name.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/stack_table.h"
#include "analyzer/trace/timeline.h"
#include "tests/process/java.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

constexpr std::uint64_t kFirst = 40000000, kMostSamples = 1000000;  // observer.c

struct JavaFrame {
  std::string method;
  std::uint32_t line = 0;
  bool operator==(const JavaFrame&) const = default;
};
using JavaStack = std::vector<JavaFrame>;

// "shop/Cart.1234" of a hidden class: the JVM's own structures have a plus there, and its number is another each time.
std::string spelled_as_inside(std::string frame) {
  const std::size_t number = frame.find(".0x");
  if (number != std::string::npos) frame[number] = '+';
  return frame;
}

// "shop.Cart.add(int):12".
JavaFrame frame_of(const std::string& text) {
  const std::size_t line = text.rfind("):");
  if (line == std::string::npos) return {text, 0};
  return {text.substr(0, line + 1), static_cast<std::uint32_t>(std::stoul(text.substr(line + 2)))};
}

std::map<std::uint64_t, JavaStack> observed(const std::string& path) {
  std::map<std::uint64_t, JavaStack> all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream parts(line);
    std::string part;
    std::getline(parts, part, '\t');
    JavaStack& stack = all[std::stoull(part)];
    while (std::getline(parts, part, '\t')) {
      const std::size_t colon = part.rfind(':');
      stack.push_back({trace::java_name(spelled_as_inside(part.substr(0, colon))),
                       static_cast<std::uint32_t>(std::stoul(part.substr(colon + 1)))});
    }
  }
  return all;
}

class SampleSites final : public trace::Observer {
 public:
  void allocated(const trace::Block& block, trace::Tick) override {
    if (block.size >= kFirst && block.size < kFirst + kMostSamples) sites[block.size] = block.site;
  }
  std::map<std::uint64_t, trace::SiteId> sites;
};

struct Comparison {
  std::size_t compared = 0, different = 0, without_line = 0, other_line = 0;
  std::string first_difference;
};

void compare(const JavaStack& told, const JavaStack& recorded, bool whole, Comparison& to) {
  to.compared++;
  const std::size_t count = whole ? std::max(told.size(), recorded.size()) : recorded.size();
  for (std::size_t i = 0; i < count; i++) {
    const JavaFrame none{"(none)", 0};
    const JavaFrame &one = i < told.size() ? told[i] : none, &other = i < recorded.size() ? recorded[i] : none;
    if (one.method != other.method) {
      if (!to.different++)
        to.first_difference = "frame " + std::to_string(i) + ": the JVM says " + one.method + ", the trace " + other.method;
      return;
    }
    if (one.line != other.line) (other.line ? to.other_line : to.without_line)++;
  }
}

Comparison comparison(const std::string& trace_path, const std::string& observed_path) {
  const std::map<std::uint64_t, JavaStack> told = observed(observed_path);
  trace::Reader reader(trace_path);
  SampleSites samples;
  trace::Timeline(reader, {&samples}).run();
  Comparison result;
  for (const auto& [size, stack] : told) {
    const auto site = samples.sites.find(size);
    const trace::Stack read = site == samples.sites.end() ? trace::Stack{} : reader.stacks().stack(site->second);
    JavaStack recorded;
    for (const trace::StackFrame& frame : read.frames)
      if (frame.method != trace::kNoMethod && !reader.stacks().methods()[frame.method].starts_with('['))
        recorded.push_back(frame_of(reader.stacks().methods()[frame.method]));
    compare(stack, recorded, read.end != trace::StackEnd::depth, result);
  }
  return result;
}

TEST(JavaStacks, AreThoseThatTheJvmTellsItself) {
  HEAPSPY_NEEDS_JAVA_STACKS();
  const std::string agent = victim_library("java_observer");
  if (!std::filesystem::exists(agent)) GTEST_SKIP() << "the headers of a JDK (jvmti.h) are not installed";
  const char* other = getenv("HEAPSPY_JAVA_COMMAND");
  for (const std::string& java : jvms()) {
    SCOPED_TRACE(java);
    Launch launch{.command = {java}};
    const std::string agent_options = other ? "20000,100000," : "1000,1200,";
    launch.command.push_back("-agentpath:" + agent + "=" + agent_options + "observed");
    if (other) {
      std::istringstream words(other);
      for (std::string word; words >> word;) launch.command.push_back(word);
      launch.limit_s = 3000;
    } else {
      for (const char* each : {"-Xmx64m", "-XX:+UseSerialGC", "-Xshare:auto"}) launch.command.emplace_back(each);
      launch.command.insert(launch.command.end(), {victim_source("Shapes.java"), "60"});
    }
    launch.environment = {{"HEAPSPY_DEPTH", "512"}, {"HEAPSPY_CHILDREN", "none"}};
    Recording run(launch);
    ASSERT_EQ(run.finish().exit_status, 0) << run.finish();
    const Comparison result = comparison(run.trace(), run.file("observed"));
    EXPECT_GE(result.compared, 1000u);
    EXPECT_EQ(result.different, 0u) << "of " << result.compared << ": " << result.first_difference;
    EXPECT_EQ(result.other_line, 0u);
    // The JVM knows more where a frame is about to be replaced.
    EXPECT_LE(result.without_line, result.compared / 50);
    if (other)
      printf("%s: %zu stacks, %zu different, %zu frames without a line, %zu with another\n", java.c_str(), result.compared,
             result.different, result.without_line, result.other_line);
  }
}

TEST(JavaThreads, HaveTheNamesAndGroupsThatJavaGivesThem) {
  HEAPSPY_NEEDS_JAVA_STACKS();
  for (const std::string& java : jvms()) {
    SCOPED_TRACE(java);
    Recording run({.command = {java, "-Xmx64m", "-XX:+UseSerialGC", victim_source("Shapes.java"), "2"}});
    EXPECT_EQ(run.finish().out, "done 2000\n") << run.finish();
    const report::Report report = run.report();
    EXPECT_GT(thread_named(report, "a-thread-with-a-name-that-no-kernel-keeps").allocations, 0u);
    EXPECT_GT(thread_named(report, "named-again-after-it-has-begun").allocations, 0u);
    EXPECT_GT(thread_named(report, "Reference Handler").allocations, 0u) << "begun before the JVM could be asked";
    EXPECT_GT(thread_named(report, "main").allocations, 0u) << "java to the kernel";

    const report::ThreadReport main = thread_named(report, "main"), handler = thread_named(report, "Reference Handler"),
                               renamed = thread_named(report, "named-again-after-it-has-begun");
    EXPECT_EQ(main.group, "main");
    EXPECT_EQ(main.daemon, false);
    EXPECT_EQ(handler.group, "system");
    EXPECT_EQ(handler.daemon, true);
    EXPECT_EQ(renamed.group, "shapes");
    EXPECT_EQ(renamed.daemon, true);
    EXPECT_EQ(thread_named(report, "VM Thread").daemon, std::nullopt) << "none of Java's";
    ASSERT_EQ(renamed.names.size(), 3u);
    EXPECT_EQ(renamed.names[1].name, "before");
    EXPECT_EQ(renamed.names[2].name, "named-again-after-it-has-begun");
    EXPECT_LE(renamed.start_s, renamed.names[1].time_s);
    EXPECT_LE(renamed.names[1].time_s, renamed.names[2].time_s);
    EXPECT_LE(renamed.names[2].time_s, *renamed.end_s);
  }
}

TEST(JavaThreads, KeepTheirNamesWhereARingHasWrappedSinceTheyWereSaid) {
  HEAPSPY_NEEDS_JAVA_STACKS();
  Recording run({.command = {jvms()[0], "-Xmx64m", "-XX:+UseSerialGC", victim_source("Methods.java"), "100000"},
                 .environment = {{"HEAPSPY_MODE", "ring"}, {"HEAPSPY_RING", "1MiB"}}});
  EXPECT_EQ(run.finish().out, "asked 100000\n") << run.finish();
  const report::Report report = run.report();
  ASSERT_TRUE(report.trace.ring);
  EXPECT_FALSE(report.trace.ring->whole);
  const report::ThreadReport thread = thread_named(report, "a-name-longer-than-fifteen-bytes");
  EXPECT_GT(thread.allocations, 10000u);
  EXPECT_EQ(thread.group, "main");
  EXPECT_EQ(thread.daemon, false);
}

TEST(JavaThreads, KeepTheKernelsNamesWhereJavaIsLeftOut) {
  HEAPSPY_NEEDS_JAVA_STACKS();
  Recording run({.command = {jvms()[0], "-Xmx64m", "-XX:+UseSerialGC", victim_source("Shapes.java"), "2"},
                 .environment = {{"HEAPSPY_JAVA", "off"}}});
  EXPECT_EQ(run.finish().out, "done 2000\n") << run.finish();
  EXPECT_GT(thread_named(run.report(), "a-thread-with-a").allocations, 0u);
}

}  // namespace
}  // namespace heapspy::test
