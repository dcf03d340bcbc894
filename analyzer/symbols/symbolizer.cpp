#include "analyzer/symbols/symbolizer.h"

#include <algorithm>
#include <utility>

#include "analyzer/symbols/perf_map.h"
#include "analyzer/symbols/symbol_cache.h"

namespace heapspy::symbols {

Symbolizer::Symbolizer(std::vector<Module> modules, SearchPaths search, std::string perf_map, std::uint64_t started)
    : modules_(std::move(modules)),
      search_(std::move(search)),
      perf_map_(std::move(perf_map)),
      started_(started),
      states_(modules_.size()) {}

void Symbolizer::look_up(const std::function<void(const std::string&)>& progress) {
  const auto address_of = [](const Place& place) { return place.address - (place.is_return && place.address ? 1 : 0); };
  std::optional<PerfMap> map;
  bool map_read = false;
  for (auto at = places_.begin(); at != places_.end();) {
    const std::uint32_t module = at->first.module;
    auto end = at;
    while (end != places_.end() && end->first.module == module) ++end;
    if (std::all_of(at, end, [](const auto& each) { return each.second.has_value(); })) {
      at = end;
      continue;
    }
    if (module >= modules_.size()) {
      if (!std::exchange(map_read, true)) map = PerfMap::read(perf_map_, started_);
      for (; at != end; ++at) {
        at->second.emplace();
        if (const std::string* name = map ? map->find(address_of(at->first)) : nullptr) at->second->push_back({*name, "", 0});
      }
      continue;
    }
    std::vector<std::uint64_t> addresses;
    for (auto each = at; each != end; ++each) addresses.push_back(address_of(each->first));
    std::sort(addresses.begin(), addresses.end());
    addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
    if (progress) progress(modules_[module].path);
    const FoundModule found = find_module(modules_[module], search_);
    ModuleLocations locations = locate_remembering(modules_[module], found, search_, addresses);
    states_[module] = ModuleState{found.state, locations.debug_info, locations.symbols};
    for (; at != end; ++at) {
      const auto where = std::lower_bound(addresses.begin(), addresses.end(), address_of(at->first));
      at->second = locations.at[static_cast<std::size_t>(where - addresses.begin())];
    }
  }
}

const Locations& Symbolizer::at(const Place& place) const {
  static const Locations nothing;
  const auto found = places_.find(place);
  return found == places_.end() || !found->second ? nothing : *found->second;
}

}  // namespace heapspy::symbols
