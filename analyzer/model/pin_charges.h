// Who pins: the free bytes of resident pages that hold live blocks, in equal parts to these, and their sums by thread, size,
// age and site; and what each site holds. The other half of arena_state.h, which says what the pages are.
#pragma once
#include <unordered_set>
#include <vector>

#include "analyzer/model/arena_state.h"
#include "analyzer/model/residency.h"

namespace heapspy::model {

constexpr std::uint64_t page_of(std::uint64_t address) { return address / kPageBytes * kPageBytes; }

// One moment's. All that is given must outlive it.
class PinCharges {
 public:
  // `other_pages`: addresses of pages outside all heaps with blocks that are not alone in a mapping.
  PinCharges(const ArenaInputs& inputs, const ArenaMap& map, const Residency& residency,
             const std::unordered_set<std::uint64_t>& other_pages)
      : in_(inputs), map_(map), residency_(residency), other_pages_(other_pages) {}

  // Every live block, once, before charge().
  void look_at(const trace::Block& block) {
    if (in_.sites && in_.sites->filter.passes(block)) belongs_to_site(block);
  }
  // A second pass over the blocks. `state`: its process.pinned_bytes is what all charges sum to.
  void charge(std::size_t top_blocks, ArenaState& state);
  // After that: by site.
  std::vector<SiteHold> site_holds();

 private:
  struct Charge {
    double bytes = 0;
    std::uint64_t blocks = 0;
  };
  struct PinnedBy {
    double bytes = 0;
    trace::Block block;
  };

  double share_of(std::uint64_t page) const;
  void belongs_to_site(const trace::Block&);
  void apportion_to_sites(std::uint64_t total);
  static std::vector<ThreadPin> apportion(ThreadTable<Charge>&, std::uint64_t total);
  std::size_t age_of(const trace::Block&) const;

  const ArenaInputs& in_;
  const ArenaMap& map_;
  const Residency& residency_;
  const std::unordered_set<std::uint64_t>& other_pages_;
  std::vector<SiteHold> site_holds_;  // by SiteId
  std::vector<Charge> site_charges_;  // likewise
};

}  // namespace heapspy::model
