// bytehound#21: a trace of 15 GB took 59 GB. Here memory is that of what lives at once, whatever has passed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "analyzer/model/heap_model.h"
#include "tests/model/allocated_bytes.h"
#include "tests/support/trace_builder.h"

namespace heapspy::test {
namespace {

// The most memory held while a trace of so many pairs in four threads is read; at most 64 blocks live at once.
std::uint64_t most_held(std::uint64_t pairs) {
  const std::string path = testing::TempDir() + "growth_test." + std::to_string(::getpid()) + ".hspy";
  {
    TraceBuilder trace;
    trace.process(format::ProcessTag::allocator, "glibc").process(format::ProcessTag::glibc_version, "2.36");
    for (std::uint32_t t = 0; t < 4; t++) {
      ThreadBuilder& thread = trace.thread("t", 100 + t);
      const std::uint64_t base = 0x7f0000000000 + (std::uint64_t{t} << 26);
      for (std::uint64_t i = 0; i < pairs / 4; i++) {
        if (i % 16 == 0) thread.stamp(1000 + i * 100);
        if (i >= 16) thread.free(base + 64 * ((i - 16) % 48));
        thread.malloc(base + 64 * (i % 48), 40);
      }
    }
    trace.write(path);
  }
  const trace::Reader reader(path);
  const std::uint64_t before = allocated_bytes();
  std::uint64_t most = 0;
  model::ModelOptions options;
  options.progress = [&](double) { most = std::max(most, allocated_bytes() - before); };
  const model::Figures figures = model::build_figures(reader, options);
  most = std::max(most, allocated_bytes() - before);
  EXPECT_EQ(figures.totals.allocations, pairs);
  EXPECT_EQ(figures.totals.unknown_frees, 0u);
  ::unlink(path.c_str());
  return most;
}

TEST(HeapModelGrowth, OfMemoryIsThatOfTheLiveSet) {
  const std::uint64_t small = most_held(8'000), large = most_held(800'000);
  // A hundred times the events. The reader's list of chunks is counted before; the curve over time has its fill of points.
  EXPECT_LE(large, small + (2u << 20)) << small << " bytes before";
}

}  // namespace
}  // namespace heapspy::test
