// Programs that change their folder, root, user, limits, descriptors and signals while they are recorded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/process/recording.h"

namespace heapspy::test {
namespace {

TEST(Surroundings, AProgramThatClosesEveryDescriptorKeepsItsFilesAndItsTrace) {
  const Compared compared = expect_unchanged({.command = {victim("closes_all")}});
  EXPECT_EQ(compared.plain.exit_status, 0);
  const report::Report report = compared.recording->report();
  expect_whole(report);
  const report::ThreadReport thread = thread_named(report, "t-closes");
  EXPECT_EQ(thread.allocations, 100000u);
  EXPECT_EQ(thread.frees, 100000u);
}

// Allocations and frees of its two threads in the trace, and what was lost of them.
struct Told {
  std::uint64_t daemon = 0, later = 0, lost = 0;
};

Told told(const report::Report& report) {
  Told all;
  for (const report::ThreadReport& thread : report.threads) {
    if (thread.name == "t-daemon") all.daemon += thread.allocations + thread.frees;
    if (thread.name == "t-later") all.later += thread.allocations + thread.frees;
  }
  all.lost = report.trace.lost_events;
  for (const report::DamageReport& damage : report.trace.damage) ADD_FAILURE() << damage.reason << " at " << damage.offset;
  return all;
}

// The program behaves as without the recorder, and says nothing but, where events are lost, that one line.
struct Changed {
  std::unique_ptr<Recording> recording;
  report::Report report;
};
Changed run_changed(const std::string& what, const std::string& why_lost = "") {
  Setup setup{.command = {victim("changes_itself"), what}};
  Setup plain = setup;
  plain.recorded = false;
  Outcome expected = Recording(plain).finish();
  EXPECT_EQ(expected.exit_status, 0) << expected;
  Changed changed{std::make_unique<Recording>(setup), {}};
  const Outcome& outcome = changed.recording->finish();
  if (!why_lost.empty())
    expected.err = "heapspy: events are being lost: " + why_lost + " (" + changed.recording->trace() + ")\n";
  EXPECT_EQ(outcome, expected);
  changed.report = changed.recording->report();
  return changed;
}

void expect_all(const report::Report& report) {
  expect_whole(report);
  EXPECT_EQ(told(report).daemon, 200002u);
  EXPECT_EQ(told(report).later, 100u);
}

// Nothing is lost without being counted. The main thread's few events are in neither thread but may be among the lost.
void expect_rest_counted(const report::Report& report) {
  const Told all = told(report);
  EXPECT_GT(all.lost, 0u);
  EXPECT_GE(all.daemon + all.later + all.lost, 200002u + 100);
  EXPECT_LE(all.daemon + all.later + all.lost, 200002u + 100 + 20);
  EXPECT_FALSE(report.trace.complete);
  EXPECT_TRUE(report.trace.stop.has_value());
}

TEST(Surroundings, NothingChangedLosesNothing) { expect_all(run_changed("nothing").report); }
TEST(Surroundings, AnotherWorkingFolderLosesNothing) { expect_all(run_changed("chdir").report); }

TEST(Surroundings, AnotherRootIsQuietAndCounted) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  expect_rest_counted(run_changed("chroot", "the trace cannot be reached any more").report);
}

TEST(Surroundings, AnotherUserIsQuietAndCounted) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  expect_rest_counted(run_changed("setuid", "the trace cannot be reached any more").report);
}

TEST(Surroundings, AFileSizeLimitRaisesNoSignal) {
  const report::Report report = run_changed("fsize", "the file size limit (ulimit -f) is reached").report;
  expect_rest_counted(report);
  EXPECT_GT(told(report).daemon, 10000u);  // what fits is there
  EXPECT_LE(report.trace.size_bytes, 300u << 10);
}

TEST(Surroundings, AFileSizeLimitOfNothingRaisesNoSignal) {
  expect_rest_counted(run_changed("fsize0", "the file size limit (ulimit -f) is reached").report);
}

TEST(Surroundings, NoMoreDescriptorsIsCounted) { expect_rest_counted(run_changed("nofile", "no free file descriptor").report); }

TEST(Surroundings, NoMoreAddressSpaceIsHarmless) {
  const Changed changed = run_changed("as");
  const Told all = told(changed.report);
  EXPECT_EQ(all.daemon + all.lost, 200002u);
}

TEST(Surroundings, AFileSizeLimitBeforeTheStartLeavesTheProgramUnrecorded) {
  const Compared unlimited = expect_unchanged({.command = {victim("says"), "hello"}, .environment = {{"HEAPSPY_MODE", "off"}}});
  Recording run({.command = {"sh", "-c", "ulimit -f 1; exec " + victim("says") + " hello > /dev/null"},
                 .environment = {{"HEAPSPY_ONLY", "says"}}});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  EXPECT_THAT(outcome.err, testing::MatchesRegex("heapspy: cannot create .*: beyond the file size limit \\(ulimit -f\\)\\. Not "
                                                 "recording; set HEAPSPY_OUT to a writable folder\\.\n"));
}

TEST(Surroundings, SignalsStayTheProgramsOwn) {
  const Compared compared = expect_unchanged({.command = {victim("shows_signals")}});
  EXPECT_THAT(compared.plain.out, testing::HasSubstr("handled 3000\n"));
  expect_whole(compared.recording->report());
}

TEST(Surroundings, AtHeapspyMaxRecordingStopsAndSaysSo) {
  Recording run({.command = {victim("changes_itself"), "nothing"}, .environment = {{"HEAPSPY_MAX", "256KiB"}}});
  EXPECT_EQ(run.finish().exit_status, 0);
  EXPECT_EQ(run.finish().err, "heapspy: events are being lost: HEAPSPY_MAX is reached (" + run.trace() + ")\n");
  const report::Report report = run.report();
  expect_rest_counted(report);
  EXPECT_LE(report.trace.size_bytes, 256u << 10);
}

// A file system of its own in the run's folder, for as long as this lives. Needs root.
class SmallDisk {
 public:
  explicit SmallDisk(const char* options, unsigned long flags = 0) : options_(options), flags_(flags) {}
  ~SmallDisk() {
    if (!where_.empty()) umount2(where_.c_str(), MNT_DETACH);
  }
  // As Setup::in_folder.
  std::function<void()> mount_here() {
    return [this] {
      std::filesystem::create_directory("disk");
      const std::string where = std::filesystem::current_path() / "disk";
      if (mount("tmpfs", where.c_str(), "tmpfs", flags_, options_) == 0) where_ = where;
    };
  }
  bool mounted() const { return !where_.empty(); }

 private:
  const char* options_;
  unsigned long flags_;
  std::string where_;
};

TEST(Surroundings, AFullDiskLeavesTheTraceReadableAsFarAsItGot) {
  SmallDisk disk("size=300k");
  Recording run({.command = {victim("changes_itself"), "nothing"},
                 .to_traces_folder = false,
                 .environment = {{"HEAPSPY_OUT", "@/disk/full.hspy"}},
                 .in_folder = disk.mount_here()});
  const Outcome& outcome = run.finish();
  if (!disk.mounted()) GTEST_SKIP() << "cannot mount a small disk here (needs root)";
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(outcome.err, "heapspy: events are being lost: no space left on the disk (" + run.file("disk/full.hspy") + ")\n");
  const report::Report report = run.report_in("disk/full.hspy");
  expect_rest_counted(report);
  EXPECT_GT(told(report).daemon, 10000u);
  EXPECT_THAT(*report.trace.stop, testing::HasSubstr("disk was full"));
}

TEST(Surroundings, ADiskWithoutRoomForATraceLeavesTheProgramUnrecorded) {
  SmallDisk disk("size=8k");
  Recording run({.command = {victim("says"), "hello"},
                 .to_traces_folder = false,
                 .environment = {{"HEAPSPY_OUT", "@/disk/full.hspy"}},
                 .in_folder = disk.mount_here()});
  const Outcome& outcome = run.finish();
  if (!disk.mounted()) GTEST_SKIP() << "cannot mount a small disk here (needs root)";
  EXPECT_EQ(outcome.out, "hello\n");
  EXPECT_EQ(outcome.err, "heapspy: cannot create " + run.file("disk/full.hspy") +
                             ": no space left on the disk. Not recording; set HEAPSPY_OUT to a writable folder.\n");
  EXPECT_FALSE(std::filesystem::exists(run.file("disk/full.hspy"))) << "an empty file is left behind";
}

TEST(Surroundings, AReadOnlyFolderLeavesTheProgramUnrecorded) {
  SmallDisk disk("size=300k", MS_RDONLY);
  Recording run({.command = {victim("says"), "hello"},
                 .to_traces_folder = false,
                 .environment = {{"HEAPSPY_OUT", "@/disk/trace.hspy"}},
                 .in_folder = disk.mount_here()});
  const Outcome& outcome = run.finish();
  if (!disk.mounted()) GTEST_SKIP() << "cannot mount a small disk here (needs root)";
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(outcome.out, "hello\n");
  EXPECT_EQ(outcome.err, "heapspy: cannot create " + run.file("disk/trace.hspy") +
                             ": read-only file system. Not recording; set HEAPSPY_OUT to a writable folder.\n");
}

TEST(Surroundings, AnUnwritableFolderLeavesTheProgramUnrecorded) {
  Setup setup{.command = {victim("says"), "hello"},
              .to_traces_folder = false,
              .environment = {{"HEAPSPY_OUT", "@/locked/trace.hspy"}},
              .in_folder = [] {
                std::filesystem::create_directory("locked");
                std::filesystem::permissions("locked", std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec |
                                                           std::filesystem::perms::others_exec);
              }};
  if (geteuid() == 0)
    setup.before_exec = [] {
      if (setgid(65534) || setuid(65534)) _exit(99);
    };
  Recording run(std::move(setup));
  const Outcome& outcome = run.finish();
  if (outcome.exit_status == 127) GTEST_SKIP() << "the build folder cannot be reached by another user";
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(outcome.out, "hello\n");
  // Another user may not be able to reach the library in the build folder either; then the loader has the word.
  if (outcome.err.starts_with("ERROR: ld.so")) GTEST_SKIP() << "the library cannot be reached by another user";
  EXPECT_EQ(outcome.err, "heapspy: cannot create " + run.file("locked/trace.hspy") +
                             ": permission denied. Not recording; set HEAPSPY_OUT to a writable folder.\n");
}

TEST(Surroundings, AFolderThatIsNotThereLeavesTheProgramUnrecorded) {
  Recording run({.command = {victim("says"), "hello"},
                 .to_traces_folder = false,
                 .environment = {{"HEAPSPY_OUT", "@/no/such/trace.hspy"}}});
  EXPECT_EQ(run.finish().out, "hello\n");
  EXPECT_EQ(run.finish().err, "heapspy: cannot create " + run.file("no/such/trace.hspy") +
                                  ": no such folder. Not recording; set HEAPSPY_OUT to a writable folder.\n");
}

TEST(Surroundings, AFileThatIsThereIsNotTouched) {
  Recording run({.command = {victim("says"), "hello"},
                 .to_traces_folder = false,
                 .environment = {{"HEAPSPY_OUT", "@/mine.hspy"}},
                 .in_folder = [] { std::ofstream("mine.hspy") << "mine"; }});
  EXPECT_EQ(run.finish().out, "hello\n");
  EXPECT_EQ(run.finish().err, "heapspy: cannot create " + run.file("mine.hspy") +
                                  ": exists already. Not recording; set HEAPSPY_OUT to a writable folder.\n");
  EXPECT_EQ(content_of(run.file("mine.hspy")), "mine");
}

TEST(Surroundings, ALinkInPlaceOfTheTraceIsNotFollowed) {
  Recording run({.command = {victim("says"), "hello"},
                 .to_traces_folder = false,
                 .environment = {{"HEAPSPY_OUT", "@/link.hspy"}},
                 .in_folder = [] { std::filesystem::create_symlink("elsewhere", "link.hspy"); }});
  EXPECT_EQ(run.finish().out, "hello\n");
  EXPECT_FALSE(std::filesystem::exists(run.file("elsewhere")));
}

}  // namespace
}  // namespace heapspy::test
