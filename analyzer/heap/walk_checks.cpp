#include "analyzer/heap/walk_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace heapspy::heap {
namespace {

std::string trouble_text(const HeapWalk& walk, std::string_view otherwise) {
  if (walk.troubles.empty()) return std::string(otherwise);
  std::string text = fmt::format("{:#x}: {}", walk.troubles[0].address, walk.troubles[0].text);
  if (walk.trouble_count > 1) text += fmt::format(", and {} more", walk.trouble_count - 1);
  return text;
}

Check tiling(const HeapCopy& copy, const HeapWalk& walk) {
  const auto tiled = std::count_if(walk.regions.begin(), walk.regions.end(), [](const RegionWalk& r) { return r.tiled; });
  const bool ok = static_cast<std::size_t>(tiled) == copy.regions.size();
  return {"chunks tile every heap", ok,
          ok ? fmt::format("{} chunks in {} heaps", walk.chunks.size(), copy.regions.size())
             : trouble_text(walk, fmt::format("{} of {} heaps", tiled, copy.regions.size()))};
}

// A thread that stood still inside malloc may be about to merge a chunk with both its neighbours, which it has taken out of
// their bins: two in each arena that was locked.
Check bins(const HeapCopy& copy, const HeapWalk& walk) {
  const auto sum = [](const std::vector<std::uint64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), 0ull); };
  std::uint64_t locked = 0, apart = 0;
  bool ok = walk.fast_faults == 0;
  for (std::size_t a = 0; a < copy.arenas.size(); a++) {
    const std::uint64_t listed = walk.listed_in_bins[a], free = walk.free_by_headers[a];
    const std::uint64_t difference = listed > free ? listed - free : free - listed;
    locked += copy.arenas[a].locked();
    apart += difference;
    ok = ok && difference <= (copy.arenas[a].locked() ? 2u : 0u);
  }
  ok = ok && walk.bin_faults <= locked;
  return {"bins list every free chunk", ok,
          fmt::format("{} in bins, {} by their neighbours' headers{}{}", sum(walk.listed_in_bins), sum(walk.free_by_headers),
                      ok && (apart || walk.bin_faults) ? " (threads stood inside malloc)" : "",
                      ok ? "" : "; " + trouble_text(walk, ""))};
}

Check totals(const HeapCopy& copy, const HeapAccount& account) {
  std::uint64_t held = 0, system = 0, wrong = 0;
  for (const ArenaAccount& arena : account.arenas) {
    held += arena.held_bytes;
    system += arena.system_bytes;
    wrong += arena.held_bytes != arena.system_bytes;
  }
  return {"totals equal malloc's own", wrong == 0,
          wrong == 0 ? fmt::format("{} bytes in {} arenas", held, copy.arenas.size())
                     : fmt::format("{} bytes by the walk, {} by malloc; {} of {} arenas differ", held, system, wrong,
                                   copy.arenas.size())};
}

Check caches(const HeapCopy& copy, const HeapWalk& walk) {
  if (walk.layout.cache_bins == 0) return {"thread caches", true, "this version has none"};
  const std::uint64_t listed = walk.cached_listed;
  if (!walk.cache_key_known)
    return {"thread caches list every cached block", walk.cache_faults == 0,
            fmt::format("{} listed; this version does not mark them", listed)};
  // Each thread may have been stopped between a list and its counter, or between the key and the list.
  const std::uint64_t apart = listed > walk.cached_by_key ? listed - walk.cached_by_key : walk.cached_by_key - listed;
  const std::uint64_t tolerated = copy.threads.size() > 1 ? copy.threads.size() : 0;
  return {"thread caches list every cached block", apart <= tolerated && walk.cache_faults == 0,
          fmt::format("{} listed in {} caches, {} by their key{}", listed, walk.caches.size(), walk.cached_by_key,
                      apart && apart <= tolerated ? " (threads stood inside malloc)" : "")};
}

Check mapped(const HeapCopy& copy, const HeapAccount& account) {
  const Parameters& parameters = *copy.parameters;
  const bool ok = account.mapped.blocks == parameters.mapped_count && account.mapped.bytes == parameters.mapped_bytes;
  return {"mapped blocks equal malloc's own count", ok,
          fmt::format("{} blocks of {} bytes found, malloc counts {} of {}", account.mapped.blocks, account.mapped.bytes,
                      parameters.mapped_count, parameters.mapped_bytes)};
}

}  // namespace

std::vector<Check> check_walk(const HeapCopy& copy, const HeapWalk& walk, const HeapAccount& account) {
  std::vector<Check> checks;
  checks.push_back({"the ring of arenas closes", copy.ring.bins_agreeing == kBins,
                    fmt::format("{} arenas; {} of {} bins of the main one hold together", copy.arenas.size(),
                                copy.ring.bins_agreeing, kBins)});
  checks.push_back(tiling(copy, walk));
  checks.push_back(bins(copy, walk));
  checks.push_back(totals(copy, account));
  checks.push_back(caches(copy, walk));
  if (copy.parameters)
    checks.push_back(mapped(copy, account));
  else
    checks.push_back({"malloc's parameters are found", false, "the mmap threshold and what was mapped by it are not known"});
  if (!copy.problems.empty())
    checks.push_back({"all of it could be read", false,
                      fmt::format("{}{}", copy.problems[0], copy.problems.size() > 1 ? ", and more" : "")});
  return checks;
}

}  // namespace heapspy::heap
