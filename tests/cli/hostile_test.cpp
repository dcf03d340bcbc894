// heapspy inspect and trim of processes that are in a bad way, or that make it hard: one line, the right exit status, and the
// target goes on as it was.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "analyzer/process/child_process.h"
#include "analyzer/process/live_process.h"
#include "tests/cli/program.h"
#include "tests/process_room/forked_child.h"

namespace heapspy::cli_test {
namespace {

using nlohmann::json;
using process_test::ForkedChild;
using testing::HasSubstr;
using testing::StartsWith;

std::atomic<std::uint64_t>* counter;

class Hostile : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "AddressSanitizer brings its own allocator";
#endif
    counter =
        new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<std::uint64_t>(0);
    ForkedChild child([] {});
    const Ran ran = heapspy({"inspect", std::to_string(child.pid())});
    if (ran.status == 4) GTEST_SKIP() << ran.err;
  }
  void TearDown() override { ::munmap(counter, 4096); }

  static std::string text(const ForkedChild& child) { return std::to_string(child.pid()); }
  static void expect_one_line(const Ran& ran, int status, const std::string& line) {
    EXPECT_EQ(ran.status, status);
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, StartsWith("heapspy: "));
    EXPECT_THAT(ran.err, HasSubstr(line));
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
  static void expect_goes_on(pid_t pid) {
    const process::LiveProcess target(pid);
    EXPECT_EQ(target.status().tracer, 0u);
    const std::uint64_t now = *counter;
    while (*counter == now && target.alive()) ::sched_yield();
    EXPECT_TRUE(target.alive());
  }
};

void count_for_ever() {
  for (;;) {
    void* volatile block = std::malloc(100);
    std::free(block);
    (*counter)++;
    if (*counter % 64 == 0) ::getppid();
  }
}

TEST_F(Hostile, ADamagedHeapIsSaidToBeSoAndNotTrimmed) {
  ForkedChild child([] {
    static char* blocks[64];
    for (char*& block : blocks) block = static_cast<char*>(std::malloc(1000));
    for (int i = 8; i < 40; i += 8) std::memset(blocks[i] + 1000, 0xa5, 16);  // over the size of the next chunk
  });
  const Ran ran = heapspy({"inspect", text(child), "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json found = json::parse(ran.out);
  EXPECT_EQ(found["trim_prediction_bytes"], nullptr);
  EXPECT_EQ(found["arenas"][0]["proven"], false);
  EXPECT_GT(found["rss"]["total_bytes"], 0);  // what the kernel knows
  expect_one_line(heapspy({"trim", text(child)}), 4, "does not prove itself");
  EXPECT_EQ(process::LiveProcess(child.pid()).status().tracer, 0u);
}

TEST_F(Hostile, AProcessThatEndsMeanwhileIsEitherReadOrSaidToHaveEnded) {
  for (int i = 0; i < 12; i++) {
    ForkedChild child([] {},
                      [i] {
                        for (int k = 0; k < 1 << (2 * i); k++) (*counter)++;
                      });
    const Ran ran = heapspy({i % 2 ? "trim" : "inspect", text(child), i % 2 ? "--watch=0" : "--json"});
    if (ran.status != 0) expect_one_line(ran, 4, "");
    child.wait_status();
  }
}

TEST_F(Hostile, AProcessThatForksWithoutRestGoesOnAndItsChildrenToo) {
  ForkedChild child([] {},
                    [] {
                      for (;;) {
                        const pid_t grandchild = ::fork();
                        if (grandchild == 0) ::_exit(5);
                        int status = 0;
                        if (::waitpid(grandchild, &status, 0) != grandchild || WEXITSTATUS(status) != 5) ::_exit(1);
                        (*counter)++;
                      }
                    });
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(heapspy({"inspect", text(child)}).status, 0);
    const Ran ran = heapspy({"trim", text(child), "--watch", "0"});
    if (ran.status != 0) expect_one_line(ran, 4, "");
    expect_goes_on(child.pid());
  }
}

// Of its own pid and mount namespace, as in a container.
TEST_F(Hostile, AProcessOfAnotherPidAndMountNamespaceIsReadAndTrimmed) {
  ForkedChild child(
      [] {
        if (::unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) != 0) *counter = ~0ull;
      },
      [] {
        if (::fork() == 0) {
          *counter = 0;
          count_for_ever();
        }
        for (;;) ::pause();
      });
  if (*counter == ~0ull) GTEST_SKIP() << "namespaces are not to be had here";
  pid_t inner = 0;
  while (inner == 0) {
    const std::string children = process::LiveProcess(child.pid()).text("task/" + text(child) + "/children");
    inner = std::atoi(children.c_str());
  }
  EXPECT_EQ(process::LiveProcess(inner).status().namespace_pid, 1u);
  const Ran ran = heapspy({"inspect", std::to_string(inner), "--json"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  const Ran trimmed = heapspy({"trim", std::to_string(inner), "--json", "--watch", "0"});
  EXPECT_EQ(trimmed.status, 0) << trimmed.err;
  expect_goes_on(inner);
  ::kill(inner, SIGKILL);
}

// for (;;) pause(), as a 32-bit program for Linux.
constexpr unsigned char kProgram32[] = {0x7f, 'E',  'L',  'F',  1,    1,    1,    0,    0,    0,
                                        0,    0,    0,    0,    0,    0,  // class 32
                                        2,    0,    3,    0,    1,    0,    0,    0,    0x54, 0x80,
                                        0x04, 0x08, 0x34, 0,    0,    0,  // executable, 386, entry 0x8048054
                                        0,    0,    0,    0,    0,    0,    0,    0,    0x34, 0,
                                        0x20, 0,    1,    0,    0,    0,    0,    0,    0,    0,  // one program header
                                        1,    0,    0,    0,    0,    0,    0,    0,    0,    0x80,
                                        0x04, 0x08, 0,    0x80, 0x04, 0x08,  // PT_LOAD at 0x8048000
                                        0x5d, 0,    0,    0,    0x5d, 0,    0,    0,    5,    0,
                                        0,    0,    0,    0x10, 0,    0,  // of 0x5d bytes, readable, executable
                                        0xb8, 0x1d, 0,    0,    0,    0xcd, 0x80, 0xeb, 0xf7};  // mov $29,%eax; int $0x80; jmp
static_assert(sizeof kProgram32 == 0x5d);

TEST_F(Hostile, A32BitProgramIsRefused) {
  char path[] = "/var/tmp/heapspy-test-XXXXXX";
  const int fd = ::mkostemp(path, O_CLOEXEC);
  ASSERT_EQ(::write(fd, kProgram32, sizeof kProgram32), static_cast<ssize_t>(sizeof kProgram32));
  ::fchmod(fd, 0700);
  ::close(fd);
  pid_t child = 0;
  try {
    child = process::start_child({{path}, {}, process::ChildOutput::discard});
  } catch (const process::StartError& error) {
    ::unlink(path);
    GTEST_SKIP() << error.what();
  }
  const std::string pid = std::to_string(child);
  expect_one_line(heapspy({"inspect", pid}), 4, "is a 32-bit program");
  expect_one_line(heapspy({"trim", pid}), 4, "is a 32-bit program");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::unlink(path);
}

// A filter might end it at madvise; whether it would is not to be seen from outside.
TEST_F(Hostile, AProcessUnderASeccompFilterIsTrimmedOnlyWhereTheUserVouchesForIt) {
  ForkedChild child([] {
    sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const sock_fprog program{1, &allow};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      *counter = 1;
  });
  if (*counter != 0) GTEST_SKIP() << "no seccomp here";
  expect_one_line(heapspy({"trim", text(child)}), 4, "add --with-seccomp");
  const Ran ran = heapspy({"trim", text(child), "--with-seccomp", "--json", "--watch", "0"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(json::parse(ran.out)["method"], "ptrace");
}

// Whatever moment the signal comes at.
TEST_F(Hostile, AnInterruptedHeapspyLeavesItsTargetRunning) {
  ForkedChild child([] {}, count_for_ever);
  for (int i = 0; i < 12; i++) {
    const char* command = i % 2 ? "trim" : "inspect";
    const pid_t heapspy =
        process::start_child({{bin_folder() + "/heapspy", command, text(child)}, {}, process::ChildOutput::discard});
    // After more and more of what the target does: from the program's start to the middle of its work.
    for (const std::uint64_t end = *counter + (1000ull << i); *counter < end;) {
      if (::waitpid(heapspy, nullptr, WNOHANG | WNOWAIT) != 0) break;
      if (const auto state = process::LiveProcess(child.pid()).status().state; state == 't') break;
    }
    ::kill(heapspy, i % 3 ? SIGINT : SIGTERM);
    ::waitpid(heapspy, nullptr, 0);
    expect_goes_on(child.pid());
  }
}

}  // namespace
}  // namespace heapspy::cli_test
