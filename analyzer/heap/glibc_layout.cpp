#include "analyzer/heap/glibc_layout.h"

namespace heapspy::heap {
namespace {

using Key = GlibcLayout::CacheKey;

// Newest first: where nothing else decides, the newer version is the likelier.
constexpr GlibcLayout kLayouts[] = {
    {43, 99, 24, false, true, 3, 0x30, true, 76, 2, true, Key::random, true},
    {42, 42, 112, true, true, 2, 0x30, true, 76, 2, true, Key::random, false},
    {35, 41, 112, true, true, 2, 0x30, true, 64, 2, false, Key::random, false},
    {34, 34, 112, true, true, 1, 0x20, true, 64, 2, false, Key::random, false},
    {32, 33, 112, true, true, 1, 0x20, true, 64, 2, false, Key::own_address, false},
    {30, 31, 112, true, true, 1, 0x20, false, 64, 2, false, Key::own_address, false},
    {29, 29, 112, true, true, 1, 0x20, false, 64, 1, false, Key::own_address, false},
    {27, 28, 112, true, true, 1, 0x20, false, 64, 1, false, Key::none, false},
    {26, 26, 104, true, true, 1, 0x20, false, 64, 1, false, Key::none, false},
    {23, 25, 104, true, true, 0, 0x20, false, 0, 1, false, Key::none, false},
    {17, 22, 104, true, false, 0, 0x20, false, 0, 1, false, Key::none, false},
};

bool agrees(const GlibcLayout& layout, const LayoutEvidence& evidence) {
  return layout.bins == evidence.bins && (!evidence.parameters || *evidence.parameters == layout.parameters) &&
         (!evidence.heap_info_bytes || *evidence.heap_info_bytes == layout.heap_info_bytes);
}

}  // namespace

std::vector<GlibcLayout> candidate_layouts(const LayoutEvidence& evidence) {
  std::vector<GlibcLayout> candidates;
  for (const GlibcLayout& layout : kLayouts) {
    if (!agrees(layout, evidence)) continue;
    // The version says it all where it does not contradict what was seen.
    if (evidence.minor && layout.minor <= *evidence.minor && *evidence.minor <= layout.newest_minor) return {layout};
    candidates.push_back(layout);
  }
  // 2.35 to 2.41 are in far more hands than 2.42, and tell themselves from it by the size of a thread cache.
  if (candidates.size() > 1 && candidates[0].minor == 42) std::swap(candidates[0], candidates[1]);
  return candidates;
}

}  // namespace heapspy::heap
