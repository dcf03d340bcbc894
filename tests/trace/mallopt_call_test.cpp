#include "analyzer/trace/mallopt_call.h"

#include <gtest/gtest.h>

namespace heapspy::test {
namespace {

using trace::mallopt_call;
using trace::MalloptCall;

TEST(MalloptCall, IsReadFromTheMarkThatSaysIt) {
  const auto arenas = mallopt_call("mallopt(M_ARENA_MAX, 2)");
  ASSERT_TRUE(arenas);
  EXPECT_EQ(arenas->parameter, MalloptCall::kArenaMax);
  EXPECT_EQ(arenas->value, 2);
  EXPECT_FALSE(arenas->ends_dynamic_threshold());
  const auto threshold = mallopt_call("mallopt(M_TRIM_THRESHOLD, -1)");
  ASSERT_TRUE(threshold);
  EXPECT_EQ(threshold->value, -1);
  EXPECT_TRUE(threshold->ends_dynamic_threshold());
}

TEST(MalloptCall, IsNothingElse) {
  for (const char* mark : {"", "mallopt(", "mallopt(M_ARENA_MAX, 2", "mallopt(M_ARENA_MAX,2)", "mallopt(M_ARENA_MAX, x)",
                           "mallopt(M_ARENA_MAX, 2 )", "mallopt(M_NOTHING, 2)", "cache filled"})
    EXPECT_FALSE(mallopt_call(mark)) << mark;
}

}  // namespace
}  // namespace heapspy::test
