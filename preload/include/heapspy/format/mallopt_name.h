// How a mark says that the program has set something by mallopt(3): "mallopt(M_ARENA_MAX, 2)". The numbers are malloc.h's.
#pragma once

namespace heapspy::format {

struct MalloptName {
  int parameter;
  const char* name;
};
inline constexpr MalloptName kMalloptNames[] = {
    {1, "M_MXFAST"},        {-1, "M_TRIM_THRESHOLD"}, {-2, "M_TOP_PAD"},    {-3, "M_MMAP_THRESHOLD"}, {-4, "M_MMAP_MAX"},
    {-5, "M_CHECK_ACTION"}, {-6, "M_PERTURB"},        {-7, "M_ARENA_TEST"}, {-8, "M_ARENA_MAX"},
};
inline constexpr const char* kMalloptBegins = "mallopt(";

}  // namespace heapspy::format
