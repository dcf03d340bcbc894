// How far the threads of a process have come in the trace that it is writing: words, not their meaning. Looks again without
// reading what was there before.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/trace/chunk_scan.h"
#include "analyzer/trace/trace_file.h"

namespace heapspy::trace {

class StreamProgress {
 public:
  // Throws Unreadable.
  explicit StreamProgress(const std::string& path);

  struct Thread {
    std::uint32_t tid = 0;
    std::uint64_t words = 0;  // written so far; one or two for an event
  };
  // By the trace's id of the thread.
  const std::map<std::uint32_t, Thread>& look();
  std::uint64_t lost_events() const { return lost_events_; }
  format::FileHeader header() const;  // as it is now

 private:
  TraceFile file_;
  std::uint64_t from_;
  std::vector<FoundChunk> staging_;
  std::map<std::uint32_t, Thread> threads_;
  std::uint64_t lost_events_ = 0;
};

}  // namespace heapspy::trace
