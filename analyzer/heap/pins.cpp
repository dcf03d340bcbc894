#include "analyzer/heap/pins.h"

#include <algorithm>
#include <array>
#include <bit>

namespace heapspy::heap {
namespace {

// 32 bytes and less are class 5, up to 64 class 6 …
unsigned class_of(const Chunk& chunk) {
  return std::max(5u, static_cast<unsigned>(std::bit_width(std::uint64_t{chunk.bytes} - 1)));
}

std::uint64_t returned(const TakenApart& apart, const std::vector<bool>* gone) {
  return resident_bytes(apart.copy, predict_trim(apart.copy, apart.walk, gone));
}
std::uint64_t more_than(std::uint64_t now, std::uint64_t then) { return then > now ? then - now : 0; }

}  // namespace

std::uint64_t returned_without(const TakenApart& apart, const std::vector<bool>& gone) {
  return more_than(returned(apart, nullptr), returned(apart, &gone));
}

std::vector<PinsOfSize> pins_by_size(const TakenApart& apart, std::size_t most) {
  std::array<PinsOfSize, 64> classes;
  for (unsigned i = 0; i < classes.size(); i++) {
    classes[i].from = i <= 5 ? 0 : (1ull << (i - 1)) + 1;
    classes[i].to = 1ull << i;
  }
  for_each_pin(apart, [&](std::size_t i, std::uint32_t pinned) {
    PinsOfSize& row = classes[class_of(apart.walk.chunks[i])];
    row.blocks++;
    row.bytes += apart.walk.chunks[i].bytes;
    row.pinned_bytes += pinned;
  });
  std::vector<PinsOfSize> rows;
  for (const PinsOfSize& row : classes)
    if (row.pinned_bytes) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const PinsOfSize& a, const PinsOfSize& b) { return a.pinned_bytes > b.pinned_bytes; });
  if (rows.size() > most) rows.resize(most);
  if (rows.empty()) return rows;
  const std::uint64_t now = returned(apart, nullptr);
  std::vector<bool> gone(apart.walk.chunks.size());
  for (PinsOfSize& row : rows) {
    for (std::size_t i = 0; i < gone.size(); i++) {
      const Chunk& chunk = apart.walk.chunks[i];
      gone[i] = chunk.kind == ChunkKind::in_use && chunk.bytes >= row.from && chunk.bytes <= row.to;
    }
    row.returned_without_bytes = more_than(now, returned(apart, &gone));
  }
  return rows;
}

}  // namespace heapspy::heap
