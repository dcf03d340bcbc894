#include "analyzer/model/site_removal.h"

#include <algorithm>
#include <utility>

#include "analyzer/model/arena_map.h"
#include "analyzer/model/residency.h"

namespace heapspy::model {
namespace {

// The resident pages that malloc_trim(0) would return. As Computation::look_at_heap in arena_state.cpp, but for the top, which
// here begins where the last page that is held ends.
class Trim {
 public:
  Trim(const ArenaInputs& in, const ArenaMap& map) : in_(in), map_(map), residency_(*in.snapshot) {}

  std::uint64_t bytes() const {
    const LargeBlocksOnPages large(in_.pages, residency_);
    std::uint64_t sum = 0;
    for (const HeapSpan& span : map_.heaps()) {
      const std::uint64_t top = top_of(span);
      const std::uint64_t fence = span.newest ? ~0ull : span.end - kPageBytes;
      residency_.for_each_resident(span.begin, span.end, [&](std::uint64_t page) {
        if (page + kPageBytes <= top && page < fence && !span.header_on(page) && !in_.pages.page(page).held())
          sum += kPageBytes;
      });
    }
    return sum;
  }

 private:
  std::uint64_t top_of(const HeapSpan& span) const {
    if (!span.newest || map_.arenas()[span.arena].kind == ArenaKind::main) return ~0ull;
    const std::uint64_t least = span.begin + span.header_bytes;
    std::uint64_t top = span.top ? span.top : span.end;
    std::uint64_t page = top / kPageBytes * kPageBytes;
    if (in_.pages.page(page).held()) return top;
    while (page > least && !in_.pages.page(page - kPageBytes).held()) page -= kPageBytes;
    return page;
  }

  const ArenaInputs& in_;
  const ArenaMap& map_;
  Residency residency_;
};

}  // namespace

std::vector<Moment::FreedSite> if_sites_let_go(const ArenaInputs& in, const ArenaState& state) {
  if (!in.snapshot || !in.sites || !in.facts.glibc || in.facts.forked || in.facts.unrecorded) return {};
  std::vector<const SiteHold*> order;
  for (const SiteHold& hold : state.sites)
    if (hold.pinned_bytes && hold.site != trace::SiteId::none) order.push_back(&hold);
  const std::size_t count = std::min(kSitesLetGo, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [](const SiteHold* a, const SiteHold* b) {
                      return a->pinned_bytes != b->pinned_bytes ? a->pinned_bytes > b->pinned_bytes : a->site < b->site;
                    });
  std::vector<Moment::FreedSite> result(count);
  for (std::size_t i = 0; i < count; i++) result[i].site = order[i]->site;
  std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> blocks(count);  // address, size
  in.for_each_live([&](const trace::Block& block) {
    for (std::size_t i = 0; i < count; i++)
      if (block.site == result[i].site && in.sites->filter.passes(block)) blocks[i].emplace_back(block.address, block.size);
  });
  const ArenaMap map(in.facts, in.snapshot);
  const Trim trim(in, map);
  const std::uint64_t now = trim.bytes();
  for (std::size_t i = 0; i < count; i++) {
    for (const auto& [address, size] : blocks[i]) {
      in.pages.remove(address, size);
      result[i].live_bytes += size;
    }
    result[i].blocks = blocks[i].size();
    const std::uint64_t then = trim.bytes();
    result[i].returned_bytes = then > now ? then - now : 0;
  }
  for (const auto& of_site : blocks)
    for (const auto& [address, size] : of_site) in.pages.add(address, size);
  return result;
}

}  // namespace heapspy::model
