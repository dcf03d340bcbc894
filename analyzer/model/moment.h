// Where memory was at one moment: what a report is made of. Owns everything, so it outlives trace and model.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/arena_folds.h"
#include "analyzer/model/arena_state.h"
#include "analyzer/model/dynamic_threshold.h"
#include "analyzer/trace/snapshot.h"

namespace heapspy::model {

enum class Why : std::uint8_t {
  peak,       // the snapshot of highest RSS
  end,        // the last snapshot; without snapshots: the last event
  requested,  // the last snapshot at or before the time asked for; without one: that time, from events alone
};

struct Moment {
  Why why = Why::end;
  trace::Tick tick = 0;
  double time_s = 0;  // since the start of the process
  std::uint64_t live_bytes = 0, live_blocks = 0;

  ArenaState heap;
  ThresholdFigures threshold;
  std::array<ArenaNeed, ArenaFolds::kArenas.size()> needs{};  // up to then
  // What would leave if the sites that pin most let go of their blocks: those so far in the list together.
  struct FreedSite {
    trace::SiteId site = trace::SiteId::none;
    std::uint64_t blocks = 0, live_bytes = 0;  // its own
    std::uint64_t returned_bytes = 0;          // that malloc_trim(0) could return then, more than now
  };
  std::vector<FreedSite> freed_sites;

  // From the snapshot; without one (`reason` is nullopt) empty, and residency in `heap` is nullopt throughout.
  std::optional<format::SnapshotReason> reason;
  std::optional<std::uint64_t> rss_bytes;
  std::uint64_t recorder_bytes = 0;            // resident, in private mappings of the recorder
  std::vector<trace::Mapping> mappings;        // by address
  std::vector<format::HeapRecord> heaps;       // by address
  std::vector<std::uint64_t> stack_addresses;  // of the threads that lived
  std::map<std::string, std::string> cgroup;
  std::string status_text;
};

}  // namespace heapspy::model
