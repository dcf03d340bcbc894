// Programs that change their folder, root, user, limits, descriptors and signals while they are recorded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
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

// The program behaves as without the recorder, and says nothing but, where events are lost, that one line.
struct Changed {
  std::unique_ptr<Recording> recording;
  report::Report report;
};
Changed run_changed(const std::string& what, const std::string& why_lost = "") {
  Launch launch{.command = {victim("changes_itself"), what}};
  Launch plain = launch;
  plain.recorded = false;
  Outcome expected = Recording(plain).finish();
  EXPECT_EQ(expected.exit_status, 0) << expected;
  Changed changed{std::make_unique<Recording>(launch), {}};
  const Outcome& outcome = changed.recording->finish();
  if (!why_lost.empty())
    expected.err = "heapspy: events are being lost: " + why_lost + " (" + changed.recording->trace() + ")\n";
  EXPECT_EQ(outcome, expected);
  changed.report = changed.recording->report();
  return changed;
}

// What the threads of changes_itself do (100 001 and 50 pairs), and one calloc of the main thread for the first, whose stack
// the second one uses again.
constexpr std::uint64_t kEvents = 2 * (100001 + 50) + 1;

void expect_all(const report::Report& report) {
  expect_whole(report);
  const report::ThreadReport daemon = thread_named(report, "t-daemon"), later = thread_named(report, "t-later");
  EXPECT_EQ(daemon.allocations, 100001u);
  EXPECT_EQ(daemon.frees, 100001u);
  EXPECT_EQ(later.allocations, 50u);
  EXPECT_EQ(later.frees, 50u);
  EXPECT_EQ(report.trace.events, kEvents);
}

// Nothing is lost without being counted.
void expect_rest_counted(const report::Report& report) {
  EXPECT_GT(report.trace.lost_events, 0u);
  EXPECT_EQ(report.trace.events + report.trace.lost_events, kEvents);
  EXPECT_FALSE(report.trace.complete);
  EXPECT_TRUE(report.trace.stop.has_value());
  EXPECT_FALSE(report.trace.damage.empty());  // says where
  EXPECT_EQ(thread_named(report, "t-later").allocations, 50u);
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
  EXPECT_GT(report.trace.events, 10000u);  // what fits is there
  EXPECT_LE(report.trace.size_bytes, 500u << 10);
}

TEST(Surroundings, AFileSizeLimitOfNothingRaisesNoSignal) {
  expect_rest_counted(run_changed("fsize0").report);  // not even a message can be written
}

TEST(Surroundings, AnotherFileInTheTracesPlaceIsNotTouched) {
  Recording run({.command = {victim("changes_itself"), "replace"},
                 .to_traces_folder = false,
                 .environment = {{"HEAPSPY_OUT", "@/traces/fixed.hspy"}}});
  EXPECT_EQ(run.finish().exit_status, 0);
  EXPECT_EQ(run.finish().err,
            "heapspy: events are being lost: the trace cannot be reached any more (" + run.file("traces/fixed.hspy") + ")\n");
  EXPECT_EQ(content_of(run.file("traces/fixed.hspy")), "mine");
  expect_rest_counted(run.report_in("traces/moved"));
}

TEST(Surroundings, NoMoreDescriptorsIsCounted) { expect_rest_counted(run_changed("nofile", "no free file descriptor").report); }

TEST(Surroundings, NoMoreAddressSpaceIsHarmless) {
  const report::Report report = run_changed("as").report;
  expect_whole(report);
  const report::ThreadReport daemon = thread_named(report, "t-daemon");
  EXPECT_EQ(daemon.allocations, 100001u);
  EXPECT_EQ(daemon.frees, 100001u);
}

TEST(Surroundings, AFileSizeLimitBeforeTheStartLeavesTheProgramUnrecorded) {
  Recording run({.command = {"sh", "-c", "ulimit -f 1; exec " + victim("says") + " hello > /dev/null"},
                 .environment = {{"HEAPSPY_ONLY", "says"}}});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  EXPECT_THAT(outcome.err, testing::MatchesRegex("heapspy: cannot create .*: beyond the file size limit \\(ulimit -f\\)\\. Not "
                                                 "recording; set HEAPSPY_OUT to a writable folder\\.\n"));
}

TEST(Surroundings, WithoutProcCallsAreRecordedAndNoPictureIsInvented) {
  const auto hide_proc = [] {
    if (unshare(CLONE_NEWNS) || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) ||
        mount("tmpfs", "/proc", "tmpfs", 0, nullptr))
      _exit(77);
  };
  Recording run({.command = {victim("says"), "hello"}, .before_exec = hide_proc});
  const Outcome& outcome = run.finish();
  if (outcome.exit_status == 77) GTEST_SKIP() << "cannot hide /proc here (needs root)";
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(outcome.out, "hello\n");
  EXPECT_EQ(outcome.err, "");
  const report::Report report = run.report();
  expect_whole(report);
  EXPECT_EQ(thread_named(report, "t-says").allocations, 10u);
  EXPECT_FALSE(report.rss.total_bytes.has_value());
}

TEST(Surroundings, LockedMemoryStaysSmall) {
  Launch launch{.command = {victim("locks_memory")}};
  Launch plain = launch;
  plain.recorded = false;
  if (Recording(plain).finish().exit_status == 77) GTEST_SKIP() << "memory cannot be locked here";
  const Compared compared = expect_unchanged(launch);
  EXPECT_EQ(compared.plain.out, "small\n");
  EXPECT_LE(compared.recording->peak_rss_bytes(), compared.plain_peak_rss_bytes + (32u << 20));
}

TEST(Surroundings, AMessageNeverLandsInTheProgramsFiles) {
  // closes_all has files of its own as 0, 1 and 2 when recording stops, and checks what is in them.
  Recording run({.command = {victim("closes_all")}, .environment = {{"HEAPSPY_MAX", "256KiB"}}});
  EXPECT_EQ(run.finish().exit_status, 0);
  const report::Report report = run.report();
  EXPECT_GT(report.trace.lost_events, 0u);
}

TEST(Surroundings, ClosedStandardDescriptorsAtTheStartChangeNothing) {
  Recording run({.command = {victim("changes_itself"), "nothing"}, .before_exec = [] {
                   for (int i = 0; i < 3; i++) close(i);
                 }});
  EXPECT_EQ(run.finish().exit_status, 0);
  expect_all(run.report());
}

TEST(Surroundings, AStderrThatNobodyReadsRaisesNoSignal) {
  const auto close_reader = [] {
    int ends[2];
    if (pipe(ends) || close(ends[0]) || dup2(ends[1], 2) != 2) _exit(99);
  };
  Recording run(
      {.command = {victim("says"), "hello"}, .environment = {{"HEAPSPY_CLOCK", "fast"}}, .before_exec = close_reader});
  const Outcome& outcome = run.finish();
  EXPECT_EQ(outcome.exit_status, 0) << outcome;
  EXPECT_EQ(outcome.out, "hello\n");
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
  // As Launch::in_folder.
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
  EXPECT_GT(report.trace.events, 10000u);
  EXPECT_THAT(*report.trace.stop, testing::HasSubstr("disk was full"));
}

// scripts/sweep-disk-full has 300 points.
TEST(FullDisk, AtAnyPointLeavesTheProgramUnchangedAndTheTraceReadable) {
  const Outcome plain = Recording({.command = {victim("changes_itself"), "nothing"}, .recorded = false}).finish();
  int mounted = 0;
  for (const int kib : {4, 16, 24, 28, 32, 36, 44, 60, 100, 300, 900, 1700}) {
    SCOPED_TRACE(kib);
    const std::string size = "size=" + std::to_string(kib) + "k";
    SmallDisk disk(size.c_str());
    Recording run({.command = {victim("changes_itself"), "nothing"},
                   .to_traces_folder = false,
                   .environment = {{"HEAPSPY_OUT", "@/disk/full.hspy"}, {"HEAPSPY_LOG", "off"}},
                   .in_folder = disk.mount_here()});
    EXPECT_EQ(run.finish(), plain);
    if (!disk.mounted()) continue;
    mounted++;
    if (!std::filesystem::exists(run.file("disk/full.hspy"))) continue;
    const report::Report report = run.report_in("disk/full.hspy");
    EXPECT_EQ(report.trace.events + report.trace.lost_events, kEvents);
  }
  if (!mounted) GTEST_SKIP() << "cannot mount a small disk here (needs root)";
}

TEST(FullDisk, AsALimitOfAFilesSizeLeavesTheProgramUnchangedAndTheTraceReadable) {
  const Outcome plain = Recording({.command = {victim("changes_itself"), "nothing"}, .recorded = false}).finish();
  for (const rlim_t bytes :
       {rlim_t{1}, rlim_t{4096}, rlim_t{20480}, rlim_t{24576}, rlim_t{30000}, rlim_t{40000}, rlim_t{200000}}) {
    SCOPED_TRACE(bytes);
    const rlimit limit = {bytes, bytes};
    Recording run({.command = {victim("changes_itself"), "nothing"},
                   .environment = {{"HEAPSPY_LOG", "off"}},
                   .before_exec = [&] { setrlimit(RLIMIT_FSIZE, &limit); }});
    EXPECT_EQ(run.finish(), plain);
    for (const report::Report& report : run.reports()) EXPECT_EQ(report.trace.events + report.trace.lost_events, kEvents);
  }
}

TEST(Surroundings, AFullDiskIsSurvivedByTheTraceThatIsDescriptorTwo) {
  SmallDisk disk("size=300k");
  Recording run({.command = {victim("changes_itself"), "nothing"},
                 .to_traces_folder = false,
                 .environment = {{"HEAPSPY_OUT", "@/disk/full.hspy"}},
                 .before_exec = [] { close(2); },
                 .in_folder = disk.mount_here()});
  EXPECT_EQ(run.finish().exit_status, 0);
  if (!disk.mounted()) GTEST_SKIP() << "cannot mount a small disk here (needs root)";
  expect_rest_counted(run.report_in("disk/full.hspy"));
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
  Launch launch{.command = {victim("says"), "hello"},
                .to_traces_folder = false,
                .environment = {{"HEAPSPY_OUT", "@/locked/trace.hspy"}},
                .in_folder = [] {
                  std::filesystem::create_directory("locked");
                  std::filesystem::permissions("locked", std::filesystem::perms::owner_read |
                                                             std::filesystem::perms::owner_exec |
                                                             std::filesystem::perms::others_exec);
                }};
  if (geteuid() == 0)
    launch.before_exec = [] {
      if (setgid(65534) || setuid(65534)) _exit(99);
    };
  Recording run(std::move(launch));
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
  EXPECT_EQ(run.finish().err,
            "heapspy: cannot create " + run.file("mine.hspy") +
                ": exists already. Not recording; put %p and %t into HEAPSPY_OUT, or let it be a folder, and each program "
                "has its own.\n");
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
