// A call of mallopt(3) by the program, as a mark says it (heapspy/format/mallopt_name.h).
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace heapspy::trace {

struct MalloptCall {
  int parameter = 0;  // malloc.h's number
  std::int64_t value = 0;
  // M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_TOP_PAD, M_MMAP_MAX: whichever is set first ends glibc's dynamic threshold
  // (malloc/malloc.c, do_set_*: mp_.no_dyn_threshold).
  bool ends_dynamic_threshold() const { return parameter <= kTrimThreshold && parameter >= kMmapMax; }

  static constexpr int kTrimThreshold = -1, kTopPad = -2, kMmapThreshold = -3, kMmapMax = -4, kArenaMax = -8;
};

// nullopt: the mark says something else.
std::optional<MalloptCall> mallopt_call(std::string_view mark);

}  // namespace heapspy::trace
