#include "analyzer/heap/glibc_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heapspy::heap {
namespace {

std::vector<unsigned> versions(const LayoutEvidence& evidence) {
  std::vector<unsigned> minors;
  for (const GlibcLayout& layout : candidate_layouts(evidence)) minors.push_back(layout.minor);
  return minors;
}
using testing::ElementsAre;
using testing::IsEmpty;

TEST(GlibcLayout, IsNarrowedByWhatWasSeen) {
  EXPECT_THAT(versions({24, {}, {}, {}}), ElementsAre(43));
  EXPECT_THAT(versions({112, 2, {}, {}}), ElementsAre(35, 42));
  EXPECT_THAT(versions({112, 2, 0x30, 36}), ElementsAre(35));
  EXPECT_THAT(versions({112, 2, 0x30, 41}), ElementsAre(35));
  EXPECT_THAT(versions({112, 2, 0x30, 42}), ElementsAre(42));
  EXPECT_THAT(versions({112, 1, 0x20, 31}), ElementsAre(30));
  EXPECT_THAT(versions({112, 1, {}, {}}), ElementsAre(34, 32, 30, 29, 27));
  EXPECT_THAT(versions({104, 0, {}, {}}), ElementsAre(23, 17));
  EXPECT_THAT(versions({24, 3, 0x30, 44}), ElementsAre(43));
}

TEST(GlibcLayout, OfAVersionThatContradictsTheMemoryIsThatOfTheMemory) {
  EXPECT_THAT(versions({112, 2, 0x30, 31}), ElementsAre(35, 42));
  EXPECT_THAT(versions({24, 3, 0x30, 36}), ElementsAre(43));
  EXPECT_THAT(versions({104, 3, {}, {}}), IsEmpty());
}

// Sizes of the structures as compiled from the sources of each version.
TEST(GlibcLayout, HasTheSizesOfTheSources) {
  const auto layout = [](unsigned bins, unsigned parameters, unsigned minor) {
    return candidate_layouts({bins, parameters, {}, minor}).at(0);
  };
  EXPECT_EQ(layout(104, 0, 17).arena_bytes(), 2184u);
  EXPECT_EQ(layout(104, 0, 23).arena_bytes(), 2192u);
  EXPECT_EQ(layout(112, 1, 31).arena_bytes(), 2200u);
  EXPECT_EQ(layout(112, 2, 36).arena_bytes(), 2200u);
  EXPECT_EQ(layout(24, 3, 43).arena_bytes(), 2112u);
  EXPECT_EQ(layout(112, 1, 27).cache_chunk_bytes(), 0x250u);
  EXPECT_EQ(layout(112, 1, 31).cache_chunk_bytes(), 0x290u);
  EXPECT_EQ(layout(112, 2, 36).cache_chunk_bytes(), 0x290u);
  EXPECT_EQ(layout(112, 2, 42).cache_chunk_bytes(), 0x300u);
  EXPECT_EQ(layout(24, 3, 43).cache_chunk_bytes(), 0x300u);
}

}  // namespace
}  // namespace heapspy::heap
