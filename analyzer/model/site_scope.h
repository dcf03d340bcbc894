// Which blocks count for sites, and how much. Shared by what is counted along the timeline (site_stats.h) and by what is looked
// at in one moment (arena_state.h).
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "analyzer/trace/event.h"

namespace heapspy::model {

struct SiteFilter {
  std::optional<std::vector<trace::ThreadId>> threads;  // that allocated the block or reallocated it last
  trace::Tick from = 0, to = ~trace::Tick{0};           // when it was allocated
  std::uint64_t least_bytes = 0, most_bytes = ~std::uint64_t{0};

  bool passes(const trace::Block& block) const {
    return block.born >= from && block.born <= to && block.size >= least_bytes && block.size <= most_bytes &&
           (!threads || std::find(threads->begin(), threads->end(), block.thread) != threads->end());
  }
  bool everything() const {
    return !threads && from == 0 && to == ~trace::Tick{0} && least_bytes == 0 && most_bytes == ~std::uint64_t{0};
  }
};

struct SiteScope {
  SiteFilter filter;
  // Mode sample: how many blocks of this size one that was sampled stands for. Empty: each stands for itself.
  std::function<double(std::uint64_t)> weight;

  double weight_of(std::uint64_t size) const { return weight ? weight(size) : 1; }
};

// What a site holds at one moment. Sums of weights; whole numbers where each block stands for itself.
struct SiteHold {
  static constexpr std::size_t kAges = 8;

  trace::SiteId site = trace::SiteId::none;
  double live_blocks = 0, live_bytes = 0;
  // Of the live bytes, by when they were allocated: the time from the start to the moment in equal parts, oldest first. A
  // leak has survivors in all of them, a cache in the first, work at hand in the last.
  double born_bytes[kAges] = {};
  std::uint64_t pinned_bytes = 0;    // charged to its blocks; over all sites those of the process, unless blocks were left out
  std::uint64_t pinning_blocks = 0;  // that pin anything
};

}  // namespace heapspy::model
