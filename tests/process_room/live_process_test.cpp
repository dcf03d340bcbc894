#include "analyzer/process/live_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "analyzer/process/doctor.h"
#include "analyzer/process/memory_map.h"
#include "tests/process_room/forked_child.h"
#include "tests/support/amounts.h"

namespace heapspy::process {
namespace {

using test::kMiB;
using test::kPage;

using process_test::ForkedChild;
using testing::ElementsAre;
using testing::HasSubstr;

const KindTotal& total_of(const MemoryMap& map, MappingKind kind) {
  static const KindTotal none;
  for (const KindTotal& each : map.kinds)
    if (each.kind == kind) return each;
  return none;
}

TEST(Status, ReadsItsFields) {
  const Status status = parse_status(
      "Name:\tsome name\nState:\tS (sleeping)\nTgid:\t11\nPPid:\t12\nUid:\t13\t14\t15\t16\nNSpid:\t11\t3\nVmHWM:\t     21 kB\n"
      "VmRSS:\t     22 kB\nVmPTE:\t     23 kB\nVmSwap:\t     24 kB\nThreads:\t5\nSigPnd:\t0000000000000100\n");
  EXPECT_EQ(status.name, "some name");
  EXPECT_EQ(status.state, 'S');
  EXPECT_EQ(status.thread_group, 11u);
  EXPECT_EQ(status.parent, 12u);
  EXPECT_EQ(status.uid, 13u);
  EXPECT_EQ(status.namespace_pid, 3u);
  EXPECT_EQ(status.peak_rss_bytes, 21u * 1024);
  EXPECT_EQ(status.rss_bytes, 22u * 1024);
  EXPECT_EQ(status.page_table_bytes, 23u * 1024);
  EXPECT_EQ(status.swap_bytes, 24u * 1024);
  EXPECT_EQ(status.threads, 5u);
  EXPECT_TRUE(status.kill_pending);
}

TEST(Status, OfAZombieOrDamagedTextKnowsNothing) {
  const Status status = parse_status("Name:\tx\nState:\tZ (zombie)\nVmRSS\nVmHWM: kB\nThreads: many\n:\n");
  EXPECT_EQ(status.state, 'Z');
  EXPECT_FALSE(status.rss_bytes || status.peak_rss_bytes || status.page_table_bytes || status.threads || status.uid);
  EXPECT_FALSE(status.kill_pending);
}

TEST(Rollup, ReadsTotals) {
  const auto totals = parse_rollup(
      "55dad5bbc000-7ffd6a603000 ---p 00000000 00:00 0 [rollup]\nRss:  31 kB\nPss:  32 kB\nPss_Anon: 1 kB\nAnonymous: 33 kB\n"
      "Private_Dirty: 34 kB\nSwap: 35 kB\n");
  ASSERT_TRUE(totals);
  EXPECT_EQ(totals->rss_bytes, 31u * 1024);
  EXPECT_EQ(totals->pss_bytes, 32u * 1024);
  EXPECT_EQ(totals->anonymous_bytes, 33u * 1024);
  EXPECT_EQ(totals->private_dirty_bytes, 34u * 1024);
  EXPECT_EQ(totals->swap_bytes, 35u * 1024);
  EXPECT_FALSE(parse_rollup(""));
  EXPECT_FALSE(parse_rollup("Rss: none\n"));
}

TEST(StackPointer, IsTheLastButOneWord) {
  EXPECT_EQ(parse_stack_pointer("61 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffdba6c9e58 0x7f1b3f1d2a4d\n"), 0x7ffdba6c9e58u);
  EXPECT_EQ(parse_stack_pointer("-1 0x7f11 0x7f22\n"), 0x7f11u);
  EXPECT_FALSE(parse_stack_pointer("running\n"));
  EXPECT_FALSE(parse_stack_pointer(""));
  EXPECT_FALSE(parse_stack_pointer("-1 7f11 0x7f22\n"));
}

TEST(LiveProcess, SaysThatThereIsNone) {
  try {
    LiveProcess target(0x7ffffffe);
    FAIL() << "opened";
  } catch (const TargetError& error) {
    EXPECT_EQ(error.reason, TargetError::Reason::gone);
    EXPECT_STREQ(error.what(), "there is no process 2147483646; ps -e lists those that are");
  }
}

TEST(LiveProcess, SaysThatAZombieHasEnded) {
  ForkedChild child([] {});
  const LiveProcess target(child.pid());
  EXPECT_TRUE(target.alive());
  child.kill_only();
  EXPECT_FALSE(target.alive());
  try {
    scan_memory_map(target);
    FAIL() << "scanned";
  } catch (const TargetError& error) {
    EXPECT_EQ(error.reason, TargetError::Reason::gone);
    EXPECT_EQ(error.what(), "process " + std::to_string(child.pid()) + " has ended");
  }
  EXPECT_THROW(examine_process(target, {}), TargetError);
}

TEST(LiveProcess, SaysThatAKernelThreadHasNoMemory) {
  constexpr pid_t kThreads = 2;  // kthreadd, where this process sees it
  if (LiveProcess(::getpid()).try_text("../2/comm").value_or("") != "kthreadd\n") GTEST_SKIP() << "in a namespace of its own";
  const LiveProcess target(kThreads);
  const std::function<void()> looks[] = {[&] { scan_memory_map(target); }, [&] { examine_process(target, {}); }};
  for (const auto& look : looks) try {
      look();
      ADD_FAILURE() << "it was looked at";
    } catch (const TargetError& error) {
      EXPECT_EQ(error.reason, TargetError::Reason::refused);
      EXPECT_STREQ(error.what(), "process 2 has no memory of its own (a kernel thread)");
    }
}

TEST(LiveProcess, IsNotTakenForALaterOneOfTheSamePid) {
  ForkedChild child([] {});
  const pid_t pid = child.pid();
  const LiveProcess target(pid);
  child.end();
  EXPECT_FALSE(target.alive());
  EXPECT_FALSE(target.try_text("status"));
}

TEST(LiveProcess, NamesTheMissingRight) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to look as somebody else";
  ForkedChild child([] {});
  const pid_t looker = ::fork();
  if (looker == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
    try {
      LiveProcess(child.pid()).text("smaps");
    } catch (const TargetError& error) {
      const bool named = std::strstr(error.what(), "belongs to root (uid 0)") != nullptr &&
                         std::strstr(error.what(), "CAP_SYS_PTRACE") != nullptr;
      ::_exit(error.reason == TargetError::Reason::refused && named ? 0 : 2);
    }
    ::_exit(3);
  }
  int status = 0;
  ::waitpid(looker, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(LiveProcess, ReadsMemoryAndResidency) {
  static char* pages;
  pages = static_cast<char*>(::mmap(nullptr, 8 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ::madvise(pages, 8 * kPage, MADV_NOHUGEPAGE);
  ForkedChild child([] {
    pages[1 * kPage] = 'a';
    pages[6 * kPage] = 'b';
  });
  const LiveProcess target(child.pid());
  const auto address = reinterpret_cast<std::uint64_t>(pages);
  const auto resident = target.resident_pages(address, 8);
  ASSERT_TRUE(resident);
  EXPECT_THAT(*resident, ElementsAre(false, true, false, false, false, false, true, false));
  std::byte bytes[2];
  EXPECT_EQ(target.read_memory(address + 6 * kPage, bytes), 2u);
  EXPECT_EQ(bytes[0], std::byte{'b'});
  EXPECT_EQ(target.read_memory(8, bytes), 0u);  // the first page is never mapped
  ::munmap(pages, 8 * kPage);
}

TEST(MemoryMap, SumsAChildOfKnownMappings) {
  ForkedChild bare([] {});
  ForkedChild child([] {
    // One reservation, so that a page without access stands between any two: neighbours of one kind are one mapping.
    char* space = static_cast<char*>(::mmap(nullptr, 29 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (space == MAP_FAILED) ::_exit(1);
    for (int i = 0; i < 7; i++) {
      char* code = space + (4 * i + 1) * kPage;
      if (::mprotect(code, 3 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC)) ::_exit(1);
      std::memset(code, 1, 2 * kPage);
    }
    void* shared = ::mmap(nullptr, 5 * kMiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    std::memset(shared, 1, 1 * kMiB);
  });
  const MemoryMap before = scan_memory_map(LiveProcess(bare.pid()));
  const MemoryMap map = scan_memory_map(LiveProcess(child.pid()));

  const KindTotal& code = total_of(map, MappingKind::executable_anonymous);
  EXPECT_TRUE(code.executable);
  EXPECT_EQ(code.count - total_of(before, MappingKind::executable_anonymous).count, 7u);
  EXPECT_EQ(code.size_bytes - total_of(before, MappingKind::executable_anonymous).size_bytes, 7 * 3 * kPage);
  EXPECT_EQ(code.rss_bytes - total_of(before, MappingKind::executable_anonymous).rss_bytes, 7 * 2 * kPage);
  const KindTotal& shared = total_of(map, MappingKind::shared_memory);
  EXPECT_EQ(shared.size_bytes - total_of(before, MappingKind::shared_memory).size_bytes, 5 * kMiB);
  EXPECT_EQ(shared.rss_bytes - total_of(before, MappingKind::shared_memory).rss_bytes, 1 * kMiB);
  EXPECT_EQ(map.executable_mappings - before.executable_mappings, 7u);
  EXPECT_TRUE(map.page_table_bytes.has_value());
  EXPECT_GT(map.scan_s, 0);

  std::uint64_t count = 0, size = 0, rss = 0;
  for (const KindTotal& each : map.kinds) {
    count += each.count;
    size += each.size_bytes;
    rss += each.rss_bytes;
  }
  EXPECT_EQ(count, map.mappings);
  EXPECT_EQ(size, map.size_bytes);
  EXPECT_EQ(rss, map.rss_bytes);
}

TEST(MemoryMap, CountsArenaRegionsWhereAHeapInfoStandsAndNowhereElse) {
  constexpr std::uint64_t kRegion = kArenaRegionBytes;
  ForkedChild child([] {
    // Three aligned regions: a heap, one that only looks like it, and another heap.
    char* space =
        static_cast<char*>(::mmap(nullptr, 4 * kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    char* first = space + (kRegion - reinterpret_cast<std::uint64_t>(space) % kRegion);
    for (int i = 0; i < 3; i++) {
      char* region = first + static_cast<std::uint64_t>(i) * kRegion;
      ::mprotect(region, 0x21000, PROT_READ | PROT_WRITE);
      const std::uint64_t info[4] = {reinterpret_cast<std::uint64_t>(region) + 0x30, 0, 0x21000, 0x21000};
      if (i != 1) std::memcpy(region, info, sizeof info);
    }
  });
  ForkedChild bare([] {});
  const MemoryMap before = scan_memory_map(LiveProcess(bare.pid()));
  const MemoryMap map = scan_memory_map(LiveProcess(child.pid()));
  EXPECT_TRUE(map.regions_proven);
  EXPECT_EQ(map.regions_64mib - before.regions_64mib, 2u);
}

}  // namespace
}  // namespace heapspy::process
