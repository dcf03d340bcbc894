#include "analyzer/process/target.h"

#include <algorithm>

namespace heapspy::process {

std::vector<bool> Target::read_pieces(std::span<const Piece> pieces, std::byte* to) const {
  std::vector<bool> whole(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); i++) {
    const std::span<std::byte> room(to, pieces[i].bytes);
    whole[i] = read(pieces[i].address, room) == room.size();
    if (!whole[i]) std::fill(room.begin(), room.end(), std::byte{0});
    to += room.size();
  }
  return whole;
}

const Mapping* Target::mapping_at(std::uint64_t address) const {
  const std::vector<Mapping>& all = mappings();
  auto above = std::upper_bound(all.begin(), all.end(), address, [](std::uint64_t a, const Mapping& m) { return a < m.start; });
  if (above == all.begin()) return nullptr;
  --above;
  return address < above->end ? &*above : nullptr;
}

}  // namespace heapspy::process
