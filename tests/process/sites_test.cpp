// From a program's allocations to function, file and line: recorder, reader, symbols and report together.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "analyzer/report/build.h"
#include "analyzer/symbols/module_file.h"
#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;

#ifndef __x86_64__
#define HEAPSPY_NEEDS_STACKS() GTEST_SKIP() << "call stacks are taken on x86-64"
#else
#define HEAPSPY_NEEDS_STACKS() static_cast<void>(0)
#endif

std::uint64_t line_of(const std::string& source, const std::string& leak) {
  std::ifstream file(victim_source(source));
  std::uint64_t number = 1;
  for (std::string line; std::getline(file, line); number++)
    if (line.ends_with("// leak: " + leak)) return number;
  ADD_FAILURE() << leak;
  return 0;
}

report::Report report_of(const Recording& run) {
  report::BuildOptions options;
  options.sites.all = true;
  options.sites.search.extra = {std::filesystem::path(victim("leaks")).parent_path()};
  return report::build_report(run.trace(), options);
}

// The only site of blocks of that size that were never freed.
report::SiteReport site_with(const report::Report& report, std::uint64_t blocks, std::uint64_t bytes) {
  std::vector<report::SiteReport> found;
  for (const report::SiteReport& site : report.sites)
    if (site.end_live_blocks == blocks && site.end_live_bytes == bytes) found.push_back(site);
  EXPECT_THAT(found, SizeIs(1));
  return found.empty() ? report::SiteReport() : found[0];
}

// Frames of hooks and the like aside, the stack begins with this one.
const report::FrameReport& first_with_file(const report::SiteReport& site) {
  static const report::FrameReport none;
  for (const report::FrameReport& frame : site.frames)
    if (!frame.file.empty()) return frame;
  return none;
}

TEST(Sites, OfLeaksAreRightInInlinedCodeAndInAStrippedPluginThatIsGone) {
  HEAPSPY_NEEDS_STACKS();
  Recording run({.command = {victim("leaks"), victim_library("leaky")}});
  ASSERT_EQ(run.finish().exit_status, 0) << run.finish().err;
  const report::Report report = report_of(run);
  expect_whole(report);

  const report::SiteReport inlined = site_with(report, 7, 7000);
  ASSERT_GE(inlined.frames.size(), 3u);
  EXPECT_THAT(inlined.frames[0].function, HasSubstr("leak_inlined<1000>"));
  EXPECT_TRUE(inlined.frames[0].inlined);
  EXPECT_EQ(inlined.frames[0].line, line_of("leaks.cpp", "inlined"));
  EXPECT_THAT(inlined.frames[1].function, HasSubstr("leak_here"));
  EXPECT_EQ(inlined.frames[1].line, line_of("leaks.cpp", "here"));
  EXPECT_THAT(inlined.frames[1].file, EndsWith("tests/victims/leaks.cpp"));
  EXPECT_EQ(inlined.frames[2].function, "main");

  const report::SiteReport plugin = site_with(report, 5, 15000);
  const report::FrameReport& frame = first_with_file(plugin);
  EXPECT_EQ(frame.function, "take");
  EXPECT_EQ(frame.line, line_of("lib_leaky.c", "plugin"));
  EXPECT_THAT(frame.file, EndsWith("tests/victims/lib_leaky.c"));
  EXPECT_THAT(frame.module, EndsWith("libleaky.so"));
}

TEST(Sites, OfAStrippedLibraryHaveTheLinesOfItsDebugFileByBuildId) {
  HEAPSPY_NEEDS_STACKS();
  const std::string library = std::filesystem::path(victim_library("leaky")).filename();
  Recording run({.command = {victim("leaks"), "./" + library},
                 .in_folder = [&] { std::filesystem::copy_file(victim_library("leaky"), library); }});
  ASSERT_EQ(run.finish().exit_status, 0) << run.finish().err;
  std::string id;
  ASSERT_TRUE(symbols::read_build_id(victim_library("leaky"), id));
  id = symbols::build_id_text(id);
  const std::string folder = run.file("usr/lib/debug/.build-id/" + id.substr(0, 2));
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(victim_library("leaky") + ".debug", folder + "/" + id.substr(2) + ".debug");
  report::BuildOptions options;
  options.sites.all = true;
  EXPECT_THAT(first_with_file(site_with(report::build_report(run.trace(), options), 5, 15000)).file, EndsWith("leaks.cpp"))
      << "the caller's: of the library nothing is known";
  options.sites.search.roots = {run.folder()};
  const report::FrameReport frame = first_with_file(site_with(report::build_report(run.trace(), options), 5, 15000));
  EXPECT_EQ(frame.function, "take");
  EXPECT_EQ(frame.line, line_of("lib_leaky.c", "plugin"));
  EXPECT_THAT(frame.file, EndsWith("tests/victims/lib_leaky.c"));
}

TEST(Sites, OfALeakInRustAreItsFunctionsAndLines) {
  HEAPSPY_NEEDS_STACKS();
  if (installed("rustc").empty()) GTEST_SKIP() << "rustc is not installed";
  const std::string folder = testing::TempDir() + "heapspy-rust-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  const Outcome built = run_plain(
      {"rustc", "-g", "-Copt-level=2", "-Csymbol-mangling-version=v0", victim_source("leaks.rs"), "-o", folder + "/leaks"});
  if (built.exit_status != 0) GTEST_SKIP() << "rustc cannot build it: " << built.err;
  Recording run({.command = {folder + "/leaks"}});
  EXPECT_EQ(run.finish().exit_status, 0) << run.finish().err;
  const report::SiteReport site = site_with(report_of(run), 9, 9000);
  std::filesystem::remove_all(folder);
  std::vector<report::FrameReport> own;
  for (const report::FrameReport& frame : site.frames)
    if (frame.file.str().ends_with("leaks.rs")) own.push_back(frame);
  ASSERT_GE(own.size(), 3u);
  EXPECT_EQ(own[0].function, "<leaks::shop::Basket<u32>>::block");
  EXPECT_EQ(own[0].line, line_of("leaks.rs", "inlined"));
  EXPECT_EQ(own[1].function, "<leaks::shop::Basket<u32>>::keep");
  EXPECT_EQ(own[1].line, line_of("leaks.rs", "keep"));
  EXPECT_EQ(own[2].function, "leaks::main");
  EXPECT_EQ(own[2].line, line_of("leaks.rs", "main"));
}

std::string finding(const report::Report& report, const std::string& kind) {
  for (const findings::Finding& each : report.findings)
    if (each.kind == kind) return each.text;
  return "";
}

TEST(Sites, AreNamedByVerdictsOnLeaksAndGrowth) {
  HEAPSPY_NEEDS_STACKS();
  Recording leaking({.command = {victim("leaks"), "leaks"}}), growing({.command = {victim("leaks"), "grows"}}),
      sawing({.command = {victim("leaks"), "saws"}});
  for (Recording* each : {&leaking, &growing, &sawing}) ASSERT_EQ(each->finish().exit_status, 0);
  EXPECT_THAT(finding(report_of(leaking), "leak"),
              HasSubstr(fmt::format("leaks.cpp:{}) (11.4 MiB in 3 000 blocks", line_of("leaks.cpp", "steady"))));
  EXPECT_THAT(finding(report_of(growing), "realloc_growth"),
              HasSubstr(fmt::format("leaks.cpp:{})", line_of("leaks.cpp", "grow"))));
  EXPECT_EQ(finding(report_of(sawing), "leak"), "");
  EXPECT_EQ(finding(report_of(sawing), "realloc_growth"), "");
}

}  // namespace
}  // namespace heapspy::test
