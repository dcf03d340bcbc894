#include "analyzer/trial/lock_waits.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "analyzer/trial/measured_run.h"

namespace heapspy::trial {
namespace {

std::string call(long number, const char* rest) { return fmt::format("{} {}", number, rest); }

TEST(LockWaits, AreFutexWaitsOfALockWithWaiters) {
  EXPECT_EQ(waits_for_lock(call(SYS_futex, "0x7f00 0x80 0x2 0x0 0x0 0x0 0x7f11 0x7f22\n")), true);
  EXPECT_EQ(waits_for_lock(call(SYS_futex, "0x7f00 0x7f0000000080 0x7f0000000002 0x0 0x0 0x0 0x7f11 0x7f22\n")), true);
  EXPECT_EQ(waits_for_lock(call(SYS_futex, "0x7f00 0x80 0x0 0x0 0x0 0x0 0x7f11 0x7f22\n")), false)
      << "a condition or a semaphore";
  EXPECT_EQ(waits_for_lock(call(SYS_futex, "0x7f00 0x189 0x2 0x0 0x0 0x0 0x7f11 0x7f22\n")), false) << "FUTEX_WAIT_BITSET";
  EXPECT_EQ(waits_for_lock(call(SYS_futex, "0x7f00 0x81 0x2 0x0 0x0 0x0 0x7f11 0x7f22\n")), false) << "FUTEX_WAKE";
  EXPECT_EQ(waits_for_lock(call(SYS_read, "0x7f00 0x80 0x2 0x0 0x0 0x0 0x7f11 0x7f22\n")), false);
  EXPECT_EQ(waits_for_lock("running\n"), false);
  EXPECT_EQ(waits_for_lock("-1 0x7f11 0x7f22\n"), false);
  EXPECT_EQ(waits_for_lock(call(SYS_futex, "")), false);
  EXPECT_EQ(waits_for_lock(""), std::nullopt);
}

TEST(Victim, DISABLED_WaitsForALock) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  pthread_t thread;
  pthread_create(
      &thread, nullptr, [](void*) -> void* { return reinterpret_cast<void*>(static_cast<long>(pthread_mutex_lock(&lock))); },
      nullptr);
  ::usleep(500000);  // the thread waits that long, less its start; nothing else depends on it
  ::_exit(0);
}

TEST(LockWaits, OfARunAreSummedOverItsThreads) {
  char self[4096];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self);
  ASSERT_GT(length, 0);
  const MeasuredRun run = run_measured({{{std::string(self, static_cast<std::size_t>(length)),
                                          "--gtest_also_run_disabled_tests", "--gtest_filter=Victim.DISABLED_WaitsForALock"},
                                         {},
                                         process::ChildOutput::discard},
                                        ""});
  EXPECT_EQ(run.exit_status, 0);
  ASSERT_TRUE(run.lock_wait_s);
  EXPECT_GT(*run.lock_wait_s, 0);
  EXPECT_LE(*run.lock_wait_s, run.wall_s);
}

}  // namespace
}  // namespace heapspy::trial
