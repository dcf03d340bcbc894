#include "analyzer/heap/taken_apart.h"

#include <algorithm>
#include <stdexcept>

#include "analyzer/heap/pinned_shares.h"

namespace heapspy::heap {
namespace {

LayoutEvidence evidence_of(const HeapCopy& copy, std::optional<unsigned> minor) {
  LayoutEvidence evidence;
  evidence.bins = copy.ring.bins;
  evidence.minor = minor;
  if (copy.parameters) evidence.parameters = copy.parameters->kind;
  // The first heap of a secondary arena: heap_info, and right behind it the arena.
  if (copy.arenas.size() > 1) {
    const auto offset = static_cast<unsigned>(copy.arenas[1].address & 0xfff);
    if (offset == 0x20 || offset == 0x30) evidence.heap_info_bytes = offset;
  }
  return evidence;
}

std::size_t failures(const std::vector<Check>& checks) {
  return static_cast<std::size_t>(std::count_if(checks.begin(), checks.end(), [](const Check& each) { return !each.ok; }));
}

}  // namespace

bool TakenApart::proven() const { return failures(checks) == 0; }

TakenApart take_apart(HeapCopy copy, std::optional<unsigned> minor) {
  std::vector<GlibcLayout> layouts = candidate_layouts(evidence_of(copy, minor));
  if (layouts.empty()) {  // the pieces contradict each other: the ring alone decides, and the checks will tell
    LayoutEvidence ring;
    ring.bins = copy.ring.bins;
    layouts = candidate_layouts(ring);
  }
  if (layouts.empty()) throw std::logic_error("an arena ring of unknown layout");
  TakenApart best;
  std::size_t fewest = ~std::size_t{0}, most_caches = 0, equals = 0;
  for (const GlibcLayout& layout : layouts) {
    HeapWalk walk = walk_heaps(copy, layout);
    HeapAccount account = account_heaps(copy, walk);
    std::vector<Check> checks = check_walk(copy, walk, account);
    const std::size_t failed = failures(checks);
    // Of layouts that hold equally, the one that finds more thread caches: a wrong one finds none, and so no fault with them.
    if (failed == fewest && walk.caches.size() == most_caches) equals++;
    if (failed > fewest || (failed == fewest && walk.caches.size() <= most_caches)) continue;
    fewest = failed;
    most_caches = walk.caches.size();
    equals = 0;
    best.walk = std::move(walk);
    best.account = std::move(account);
    best.checks = std::move(checks);
  }
  best.layout_sure = equals == 0;
  share_pinned(copy, best.walk, best.account);
  best.copy = std::move(copy);
  return best;
}

}  // namespace heapspy::heap
