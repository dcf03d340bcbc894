// The protocol of format/layout.h (Control) against a recorder that is faked here.
#include "analyzer/process/recorder_link.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <filesystem>

#include "tests/process_room/forked_child.h"

namespace heapspy::process {
namespace {

using format::Control;
using format::FileHeader;
using format::Request;
using format::RequestResult;
using process_test::ForkedChild;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

// Made by the forked child, which is the fake recorder.
struct Fake {
  FileHeader* header = nullptr;

  void begin(const std::string& path, std::uint32_t version = format::kVersion) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ::ftruncate(fd, format::kPageBytes) != 0) ::_exit(10);
    header = static_cast<FileHeader*>(::mmap(nullptr, format::kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ::close(fd);
    if (header == MAP_FAILED) ::_exit(11);
    std::memcpy(header->magic, format::kMagic, sizeof header->magic);
    header->version = version;
    header->header_bytes = format::kPageBytes;
    header->pid = static_cast<std::uint32_t>(::getpid());
  }

  // Sleeps on `asked`, as the recorder's helper does; answers `times` requests with values 501, 502 …
  void serve(unsigned times, RequestResult result) const {
    Control& c = header->control;
    std::atomic_ref<std::uint32_t> asked(c.asked), answered(c.answered);
    std::atomic_ref<std::uint32_t>(c.listeners).store(1, std::memory_order_release);
    for (unsigned done = 0; done < times;) {
      const std::uint32_t seen = asked.load(std::memory_order_acquire);
      if (seen == answered.load(std::memory_order_relaxed)) {
        ::syscall(SYS_futex, &c.asked, FUTEX_WAIT, seen, nullptr, nullptr, 0);
        continue;
      }
      done++;
      c.begin_tick = 100 * done;
      c.end_tick = 100 * done + 7;
      c.value = 500 + done;
      c.result = c.request == Request::trim ? result : RequestResult::refused;
      answered.store(seen, std::memory_order_release);
      ::syscall(SYS_futex, &c.answered, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
  }
};

class RecorderLinkTest : public testing::Test {
 protected:
  RecorderLinkTest() {
    char name[] = "/var/tmp/heapspy-test-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~RecorderLinkTest() override { std::filesystem::remove_all(folder_); }
  std::string path(const char* name) const { return folder_ + "/" + name; }

  static std::string refusal(pid_t pid) {
    try {
      const LiveProcess target(pid);
      RecorderLink link(target);
      return "linked with " + link.trace_path();
    } catch (const TargetError& error) {
      EXPECT_EQ(error.reason, TargetError::Reason::refused);
      return error.what();
    }
  }

  std::string folder_;
};

TEST_F(RecorderLinkTest, AsksAgainAndAgainAndGetsEachAnswer) {
  Fake fake;
  ForkedChild child([&] { fake.begin(path("a.hspy")); }, [&] { fake.serve(3, RequestResult::done); });
  const LiveProcess target(child.pid());
  RecorderLink link(target);
  EXPECT_EQ(link.trace_path(), path("a.hspy"));
  for (std::uint64_t i = 1; i <= 3; i++) {
    const auto answer = link.ask(Request::trim, milliseconds(60000));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->result, RequestResult::done);
    EXPECT_EQ(answer->value, 500 + i);
    EXPECT_EQ(answer->begin_tick, 100 * i);
    EXPECT_EQ(answer->end_tick, 100 * i + 7);
    EXPECT_EQ(link.header().control.asked, i);
  }
  EXPECT_EQ(child.wait_status(), 0);
}

TEST_F(RecorderLinkTest, FindsATraceOfAnyName) {
  Fake fake;
  ForkedChild child([&] { fake.begin(path("odd name, no ending")); });
  EXPECT_EQ(refusal(child.pid()), "linked with " + path("odd name, no ending"));
}

TEST_F(RecorderLinkTest, PassesOnARefusal) {
  Fake fake;
  ForkedChild child([&] { fake.begin(path("a.hspy")); }, [&] { fake.serve(1, RequestResult::refused); });
  const LiveProcess target(child.pid());
  const auto answer = RecorderLink(target).ask(Request::trim, milliseconds(60000));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->result, RequestResult::refused);
}

TEST_F(RecorderLinkTest, WithdrawsWhatWasNotAnswered) {
  Fake fake;
  ForkedChild child([&] { fake.begin(path("a.hspy")); });
  const LiveProcess target(child.pid());
  RecorderLink link(target);
  EXPECT_FALSE(link.has_listener());
  EXPECT_FALSE(link.ask(Request::trim, milliseconds(1)));
  // A recorder that comes to it later finds nothing to do.
  EXPECT_EQ(link.header().control.request, Request::none);
  EXPECT_EQ(link.header().control.asked, 1u);
  EXPECT_EQ(link.header().control.answered, 0u);
}

TEST_F(RecorderLinkTest, SaysThatTheTargetEndedMeanwhile) {
  Fake fake;
  ForkedChild child([&] { fake.begin(path("a.hspy")); },
                    [&] {
                      while (std::atomic_ref<std::uint32_t>(fake.header->control.asked).load() == 0) ::usleep(1000);
                      ::_exit(0);
                    });
  const LiveProcess target(child.pid());
  RecorderLink link(target);
  try {
    link.ask(Request::trim, milliseconds(60000));
    FAIL() << "answered";
  } catch (const TargetError& error) {
    EXPECT_EQ(error.reason, TargetError::Reason::gone);
  }
}

TEST_F(RecorderLinkTest, LetsOneAskAtATime) {
  Fake fake;
  ForkedChild child([&] { fake.begin(path("a.hspy")); });
  const LiveProcess target(child.pid());
  {
    const RecorderLink link(target);
    EXPECT_THAT(refusal(child.pid()), StartsWith("another heapspy is asking process "));
  }
  EXPECT_THAT(refusal(child.pid()), StartsWith("linked with "));
}

TEST_F(RecorderLinkTest, RefusesAProcessWithoutRecorder) {
  ForkedChild child([] {});
  EXPECT_EQ(refusal(child.pid()), "process " + std::to_string(child.pid()) +
                                      " does not run under the recorder; start it with heapspy record, or with "
                                      "LD_PRELOAD=libheapspy.so");
}

TEST_F(RecorderLinkTest, RefusesTheTraceOfAnotherProcess) {
  Fake fake;
  ForkedChild child([&] {
    fake.begin(path("a.hspy"));
    fake.header->pid++;
  });
  EXPECT_THAT(refusal(child.pid()), HasSubstr("does not run under the recorder"));
}

TEST_F(RecorderLinkTest, RefusesANewerTrace) {
  Fake fake;
  ForkedChild child([&] { fake.begin(path("a.hspy"), format::kVersion + 1); });
  EXPECT_THAT(refusal(child.pid()), HasSubstr("use the heapspy that came with its recorder"));
}

TEST_F(RecorderLinkTest, ReachesOrNamesADeletedTrace) {
  Fake fake;
  ForkedChild child([&] {
    fake.begin(path("a.hspy"));
    ::unlink(path("a.hspy").c_str());
  });
  EXPECT_THAT(refusal(child.pid()), testing::AnyOf(StartsWith("linked with /proc/"), HasSubstr("was deleted")));
}

}  // namespace
}  // namespace heapspy::process
