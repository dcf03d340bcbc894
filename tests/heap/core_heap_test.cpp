// The walk of a core file: the same as that of the process it is of, and of whatever the file was damaged into, safe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "analyzer/process/stopped_process.h"
#include "analyzer/report/inspection.h"
#include "tests/heap/victim.h"
#include "tests/heap/written_core.h"

namespace heapspy::heap_test {
namespace {

using report::Inspection;

class CoreHeap : public testing::Test {
 protected:
  CoreHeap() {
    char name[] = "/var/tmp/heapspy-test-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~CoreHeap() override { std::filesystem::remove_all(folder_); }
  void SetUp() override {
    if (!may_trace()) GTEST_SKIP() << "this process may not stop others";
  }
  std::string write(const std::string& content) const {
    const std::string path = folder_ + "/core";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static Inspection live(const Victim& victim) {
    const process::LiveProcess target(victim.pid());
    return report::inspect_process(target);
  }
  static std::string core_of(const Victim& victim) {
    const process::LiveProcess target(victim.pid());
    const process::StoppedProcess stopped(target);
    return written_core(stopped, victim.pid());
  }

  std::string folder_;
};

Inspection inspect(const std::string& path) { return report::inspect_core(process::CoreFile(path)); }

void expect_same(const Inspection& core, const Inspection& process) {
  ASSERT_TRUE(core.heap && process.heap);
  for (const heap::Check& check : core.heap->checks) EXPECT_TRUE(check.ok) << check.name << ": " << check.detail;
  EXPECT_EQ(core.process.allocator_version, process.process.allocator_version);
  const auto &a = core.heap->walk.chunks, &b = process.heap->walk.chunks;
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); i++)
    ASSERT_TRUE(a[i].address == b[i].address && a[i].bytes == b[i].bytes && a[i].kind == b[i].kind) << i;
  EXPECT_EQ(core.threads.size(), process.threads.size());
  EXPECT_EQ(core.heap->copy.mapped.size(), process.heap->copy.mapped.size());
  // Residency is not in a core, and what follows from it is not known; what a trim could return at most is.
  EXPECT_FALSE(core.trim_prediction_bytes || core.rss.total_bytes);
  for (const report::InspectedArena& arena : core.arenas)
    EXPECT_FALSE(arena.resident_bytes || arena.pinned_bytes || arena.trimmable_bytes || arena.cached_bytes);
  EXPECT_GE(core.trim_at_most_bytes.value_or(0), process.trim_prediction_bytes.value_or(~0ull));
}

TEST_F(CoreHeap, IsThatOfTheProcess) {
  const Victim victim("mixed", 3);
  const Inspection process = live(victim);
  const Inspection core = inspect(write(core_of(victim)));
  expect_same(core, process);
  EXPECT_EQ(core.process.pid, static_cast<std::uint32_t>(victim.pid()));
}

TEST_F(CoreHeap, OfGcoreIsThatOfTheProcess) {
  if (std::system("command -v gcore >/dev/null 2>&1") != 0) GTEST_SKIP() << "gcore is not installed";
  const Victim victim("mixed", 3);
  const Inspection process = live(victim);
  const std::string prefix = folder_ + "/gcore", pid = std::to_string(victim.pid());
  ASSERT_EQ(std::system(("gcore -o " + prefix + " " + pid + " >/dev/null 2>&1").c_str()), 0);
  expect_same(inspect(prefix + "." + pid), process);
}

TEST_F(CoreHeap, OfTheKernelIsThatOfTheProcess) {
  std::string pattern;
  std::getline(std::ifstream("/proc/sys/kernel/core_pattern"), pattern);
  if (!pattern.starts_with("core")) GTEST_SKIP() << "the kernel gives cores to " << pattern;
  Victim victim("mixed", 3, {}, folder_);
  const Inspection process = live(victim);
  victim.abort_with_core();
  std::string path;
  for (const auto& each : std::filesystem::directory_iterator(folder_)) path = each.path();
  if (path.empty()) GTEST_SKIP() << "the kernel wrote no core";
  const Inspection core = inspect(path);
  expect_same(core, process);
  EXPECT_EQ(core.process.end, "killed");
  EXPECT_TRUE(core.process.exe.ends_with("/known_heap"));
}

TEST_F(CoreHeap, CutAnywhereIsReadAsFarAsItGoes) {
  const std::string whole = core_of(Victim("mixed", 1));
  std::size_t read = 0;
  for (std::size_t cut = 0; cut < whole.size(); cut += cut < 8192 ? 61 : 99991) {
    const std::string path = write(whole.substr(0, cut));
    try {
      const Inspection inspection = inspect(path);
      read++;
      if (!inspection.heap) continue;
      const bool missing = !inspection.notes.empty();
      EXPECT_TRUE(missing) << cut;
    } catch (const process::CoreError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(read, 10u);
}

TEST_F(CoreHeap, WithBytesChangedIsNeverTakenForWhole) {
  const Victim victim("mixed", 1);
  const std::string whole = core_of(victim);
  const Inspection sound = inspect(write(whole));
  ASSERT_TRUE(sound.heap && sound.heap->proven());
  // The size word of a chunk in the middle of each heap.
  for (const heap::RegionWalk& region : sound.heap->walk.regions) {
    const heap::Chunk& chunk = sound.heap->walk.chunks[(region.first_chunk + region.end_chunk) / 2];
    const process::CoreFile core(folder_ + "/core");
    std::uint64_t word = *core.read_value<std::uint64_t>(chunk.address + 8);
    // Where it stands in the file: searched for by its neighbours.
    std::string around(64, '\0');
    ASSERT_EQ(core.read(chunk.address - 16, std::as_writable_bytes(std::span(around))), around.size());
    const std::size_t at = whole.find(around);
    ASSERT_NE(at, std::string::npos);
    for (const std::uint64_t wrong : {std::uint64_t{0}, word ^ 0x20, word + 0x7fffffff0, ~std::uint64_t{0}}) {
      std::string damaged = whole;
      std::memcpy(damaged.data() + at + 24, &wrong, sizeof wrong);
      const std::string path = folder_ + "/damaged";
      std::ofstream(path, std::ios::binary) << damaged;
      const Inspection inspection = inspect(path);
      ASSERT_TRUE(inspection.heap);
      EXPECT_FALSE(inspection.heap->proven()) << std::hex << wrong;
    }
  }
}

TEST_F(CoreHeap, OfWhatIsNoCoreSaysSoInOneLine) {
  const auto message = [](const std::string& path) -> std::string {
    try {
      process::CoreFile core(path);
    } catch (const process::CoreError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(folder_ + "/none"), testing::HasSubstr("cannot be opened: No such file or directory"));
  EXPECT_THAT(message(write("not a core")), testing::HasSubstr("neither a process id nor a core file"));
  EXPECT_THAT(message("/proc/self/exe"), testing::HasSubstr("is an ELF file but not a core"));
  EXPECT_THAT(message(folder_), testing::HasSubstr("neither a process id nor a core file"));
}

}  // namespace
}  // namespace heapspy::heap_test
