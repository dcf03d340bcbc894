// Plays the calls of a trace again under allocator settings, each in a process of its own: what `heapspy replay` shows.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/trace/reader.h"
#include "analyzer/trial/operations_writer.h"
#include "analyzer/trial/replay_run.h"
#include "analyzer/trial/settings.h"

namespace heapspy::trial {

// total: each call when it was made, one at a time. window: threads play at once, as far as a window of 4096 calls or 1 ms lets
// them; faster, and the order within a window is by chance.
enum class Order { total, window };

// A part of the heap's memory in RAM, by the words of the ledger.
struct LedgerPart {
  std::string name;
  std::uint64_t bytes = 0;
};

struct ReplayPlan {
  std::string replayer;  // path of heapspy-replayer
  std::vector<Setting> settings;
  Touch touch = Touch::recorded;
  Order order = Order::total;
  unsigned repeat = 1;
  bool ranges = true;  // further replays for the range, and for what threads at once cost
  // One more replay of each setting, in which what the allocator asks of the kernel is counted; and, where the C library's
  // allocator plays, someone looks at the heap of that process, at its peak and at its end.
  bool count_memory_calls = false;
  std::function<std::vector<LedgerPart>(pid_t)> look;
  std::optional<unsigned> cpus;  // of the machine that the limit of arenas is for; nullopt: of the recorded one
  // Share of the trace that was prepared; which run begins. May be empty.
  std::function<void(double)> preparing;
  std::function<void(std::size_t run, std::size_t runs, const Setting&)> progress;
};

struct Range {
  std::uint64_t least = 0, most = 0;
};

struct ReplayedSetting {
  Setting setting;
  Recipe recipe;
  std::vector<Replayed> tries;      // empty where the recipe is unavailable
  std::optional<Replayed> at_once;  // threads at once: CPU time, faults and lock waits as a program pays them
  // Of all replays: repeats, another order where there are threads, another pace where the allocator goes by the clock; and
  // what replays of such programs commonly err by.
  Range peak_range, end_range;
  std::optional<MemoryCalls> memory_calls;                // nullopt: not counted
  std::vector<LedgerPart> ledger_at_peak, ledger_at_end;  // empty: nobody looked, or it could not be taken apart
  std::string problem;                                    // why a replay did not come to its end; one line, "" none
  // Of the tries: the middle one by peak.
  const Replayed* middle() const;
  // What the calls cost: with threads at once if they were played so.
  const Replayed* cost() const { return at_once ? &*at_once : middle(); }
};

struct Replay {
  std::vector<ReplayedSetting> settings;
  bool touch_is_told = false;      // by the trace itself (HEAPSPY_TOUCH); else estimated
  std::uint64_t left_out = 0;      // calls of the trace that cannot be played: of blocks that it does not know
  std::uint32_t threads = 1;       // most at a time
  std::vector<std::string> notes;  // what this machine or this trace cannot honour; one line each
  std::string advice;
};

// Throws trace::Unreadable, OperationsNotWritten, process::StartError.
Replay replay(const trace::Reader&, const ReplayPlan&);

// What the settings save and cost against `default` (or the first), and what to put into the environment.
std::string advise(const std::vector<ReplayedSetting>&);

}  // namespace heapspy::trial
