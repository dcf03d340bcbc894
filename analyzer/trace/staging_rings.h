// Copies what is still in a trace's staging rings: the newest words of each thread, which no chunk holds yet.
// The process may be writing them at the same time, or may have been killed in the middle of a word's record.
#pragma once
#include <cstdint>
#include <vector>

#include "analyzer/trace/chunk_scan.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/trace_file.h"

namespace heapspy::trace {

// The valid words of one slot, lap bits masked off. A word that was claimed and never written is 0.
struct RingCopy {
  std::uint32_t thread = 0;
  std::uint32_t tid = 0;
  std::uint64_t stream_at = 0;  // of the first word; also where the thread's chunks end
  Tick first_tick = 0;
  std::uint64_t filled = 0;  // mode ring: as in the slot
  StreamCount counted;       // records 0: not said
  std::vector<std::uint64_t> words;
};

struct StagingCopy {
  std::vector<RingCopy> rings;    // of slots that have an owner
  std::uint64_t lost_events = 0;  // over all slots
  std::vector<std::pair<std::uint32_t, std::uint64_t>> lost_by_thread;
};

// Reads one staging segment and adds to `to` and `damage`. `running`: its threads may be writing; then a word that is not
// there ends what is read, for it and its followers may be on their way.
void copy_staging(const TraceFile&, const FoundChunk&, bool running, StagingCopy& to, std::vector<Damage>& damage);

}  // namespace heapspy::trace
