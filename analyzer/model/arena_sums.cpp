#include "analyzer/model/arena_sums.h"

#include <algorithm>

namespace heapspy::model {

void settle(ArenaFigures& f) {
  if (f.parts) {
    f.trimmable_bytes = f.parts->trimmable;
    f.pinned_bytes = f.parts->pinned;
    f.cached_bytes = f.parts->cached;
  }
  if (f.parts && f.resident_bytes && *f.resident_bytes)  // without parts there may be blocks that we do not know
    f.fragmentation = std::max(0.0, 1 - static_cast<double>(f.live_bytes) / static_cast<double>(*f.resident_bytes));
}

void add(const ArenaFigures& arena, ArenaFigures& process) {
  const auto add_known = [](std::optional<std::uint64_t>& to, const std::optional<std::uint64_t>& value) {
    if (!value)
      to.reset();
    else if (to)
      *to += *value;
  };
  process.heaps += arena.heaps;
  process.live_bytes += arena.live_bytes;
  process.live_blocks += arena.live_blocks;
  add_known(process.in_use_bytes, arena.in_use_bytes);
  add_known(process.resident_bytes, arena.resident_bytes);
  if (arena.kind != ArenaKind::other) add_known(process.system_bytes, arena.system_bytes);
  if (!arena.parts)
    process.parts.reset();
  else if (process.parts)
    process.parts->add(*arena.parts);
}

}  // namespace heapspy::model
