// What would leave the process if the sites that pin most let go of their blocks.
#pragma once
#include <vector>

#include "analyzer/model/arena_state.h"
#include "analyzer/model/moment.h"

namespace heapspy::model {

inline constexpr std::size_t kSitesLetGo = 5;

// Computed from the page map itself: the blocks of the first site are taken off it, then those of the second too, and so on,
// and each time the resident pages are counted that malloc_trim(0) would return. What then adjoins the free top of a secondary
// arena becomes part of it, which no trim returns: it does not count. One pass over the live blocks, and one over the pages of
// the heaps for each site. Empty without a snapshot or call stacks, and where the sites pin nothing.
std::vector<Moment::FreedSite> if_sites_let_go(const ArenaInputs&, const ArenaState&);

}  // namespace heapspy::model
