#include "analyzer/ledger/part_details.h"

#include <fmt/format.h>

#include <algorithm>

namespace heapspy::ledger {

void PartDetails::add(PartKind part, std::string_view name, std::uint64_t bytes) {
  if (bytes) pieces_[static_cast<std::size_t>(part)][std::string(name)] += bytes;
}

void PartDetails::take(PartKind part, std::string_view name, std::uint64_t bytes) {
  auto& pieces = pieces_[static_cast<std::size_t>(part)];
  const auto at = pieces.find(std::string(name));
  if (at != pieces.end()) at->second -= std::min(at->second, bytes);
}

std::vector<Detail> PartDetails::of(PartKind part, std::uint64_t bytes, std::size_t most) const {
  std::vector<Detail> all;
  for (const auto& [name, piece] : pieces_[static_cast<std::size_t>(part)])
    if (piece) all.push_back({name, piece});
  std::sort(all.begin(), all.end(),
            [](const Detail& a, const Detail& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name; });
  if (all.size() > most + 1) {
    Detail rest{fmt::format("and {} more", all.size() - most), 0};
    for (std::size_t i = most; i < all.size(); i++) rest.bytes += all[i].bytes;
    all.resize(most);
    all.push_back(std::move(rest));
  }
  // What the mappings of a damaged snapshot say may be more than the part, or less.
  std::uint64_t rest = bytes;
  for (Detail& each : all) rest -= each.bytes = std::min(each.bytes, rest);
  std::erase_if(all, [](const Detail& each) { return each.bytes == 0; });
  if (rest && !all.empty()) all.push_back({"not known", rest});
  if (all.size() == 1 && part < PartKind::thread_stacks) all.clear();
  return all;
}

}  // namespace heapspy::ledger
