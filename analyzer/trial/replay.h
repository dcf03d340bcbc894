// Plays the calls of a trace again under allocator settings, each in a process of its own: what `heapspy replay` shows.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/trace/reader.h"
#include "analyzer/trial/operations_writer.h"
#include "analyzer/trial/settings.h"

namespace heapspy::trial {

struct ReplayPlan {
  std::string replayer;  // path of heapspy-replayer
  std::vector<Setting> settings;
  Touch touch = Touch::estimated;
  unsigned repeat = 1;
  // Share of the trace that was prepared; which run begins. May be empty.
  std::function<void(double)> preparing;
  std::function<void(std::size_t run, std::size_t runs, const Setting&)> progress;
};

struct CurvePoint {
  double time_s = 0;
  std::uint64_t heap_bytes = 0;
};

// One replay. Heap bytes: private anonymous memory in RAM beyond what the process had before the first call.
struct Replayed {
  std::uint64_t operations = 0, peak_heap_bytes = 0, end_heap_bytes = 0;
  std::uint64_t failed = 0;  // allocations that the allocator refused
  std::uint64_t minor_faults = 0;
  double wall_s = 0, cpu_s = 0;
  std::optional<std::uint64_t> arenas;  // glibc, at the end
  std::vector<CurvePoint> curve;
};

struct ReplayedSetting {
  Setting setting;
  Recipe recipe;
  std::vector<Replayed> tries;  // empty where the recipe is unavailable
  std::string problem;          // why a replay did not come to its end; one line, "" none
  // Of the tries: the middle one by peak.
  const Replayed* middle() const;
};

struct Replay {
  std::vector<ReplayedSetting> settings;
  std::uint64_t left_out = 0;  // calls of the trace that cannot be played: of blocks that it does not know
  std::string advice;
};

// Throws trace::Unreadable, OperationsNotWritten, process::StartError.
Replay replay(const trace::Reader&, const ReplayPlan&);

}  // namespace heapspy::trial
