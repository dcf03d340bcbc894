// Function, file and line of the places that a report shows. They are gathered first, then looked up in one go, module by
// module, so that no module's debug information is read twice or kept.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/symbols/debug_info.h"
#include "analyzer/symbols/module_file.h"

namespace heapspy::symbols {

inline constexpr std::uint32_t kNoModule = 0xffffffff;

struct Place {
  std::uint32_t module = kNoModule;  // index into the modules given
  std::uint64_t address = 0;         // in its ELF file; without module: in the process
  bool is_return = true;             // where a call returns to: the call itself lies before
  bool operator<(const Place& other) const {
    return std::tie(module, address, is_return) < std::tie(other.module, other.address, other.is_return);
  }
  bool operator==(const Place&) const = default;
};
struct PlaceHash {
  std::size_t operator()(const Place& place) const {
    return std::hash<std::uint64_t>()((place.address * 2 + place.is_return) * 0x9e3779b97f4a7c15 + place.module);
  }
};

struct ModuleState {
  FoundModule::State file = FoundModule::State::missing;
  bool debug_info = false, symbols = false;
};

class Symbolizer {
 public:
  // `perf_map`: path of /tmp/perf-PID.map, empty where there is none to look at; see PerfMap for `started`.
  Symbolizer(std::vector<Module> modules, SearchPaths, std::string perf_map = {}, std::uint64_t started = 0);

  void want(const Place& place) { places_.try_emplace(place); }
  // Looks up all that are wanted and were not. `progress` (may be empty) gets the module's path before it is read.
  void look_up(const std::function<void(const std::string&)>& progress = {});
  // What is known of a place that was looked up; empty: nothing.
  const Locations& at(const Place&) const;
  // nullopt: nothing was wanted of it.
  const std::optional<ModuleState>& state(std::uint32_t module) const { return states_[module]; }

 private:
  std::vector<Module> modules_;
  SearchPaths search_;
  std::string perf_map_;
  std::uint64_t started_;
  std::map<Place, std::optional<Locations>> places_;  // by module
  std::vector<std::optional<ModuleState>> states_;    // as modules_
};

}  // namespace heapspy::symbols
