// The recorder inside a live process, asked through the control words of its trace (format/layout.h: Control).
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/process/live_process.h"
#include "heapspy/format/layout.h"

namespace heapspy::process {

inline constexpr std::size_t kLongestMark = sizeof format::Control::text - 1;

struct Answer {
  format::RequestResult result = format::RequestResult::pending;
  std::uint64_t begin_tick = 0, end_tick = 0;  // of the trace's clock
  std::uint64_t value = 0;                     // trim: what malloc_trim returned
};

// The process does not run under a recorder.
struct NotRecorded : TargetError {
  explicit NotRecorded(const std::string& line) : TargetError(Reason::refused, line) {}
};

// Holds the trace open and its first page mapped, and a lock on it: one asker at a time. The target must outlive it.
class RecorderLink {
 public:
  // Finds the trace that the target's recorder maps: a shared mapping of a file that begins with the trace's magic and
  // names the target's pid. Throws NotRecorded, or TargetError (refused): its control is off, the trace belongs to another
  // user or is out of reach, or another heapspy is asking.
  // `purpose` only chooses the words of a refusal.
  explicit RecorderLink(const LiveProcess& target, format::Request purpose = format::Request::trim);
  ~RecorderLink();
  RecorderLink(const RecorderLink&) = delete;
  RecorderLink& operator=(const RecorderLink&) = delete;

  // By which this process can open the trace.
  const std::string& trace_path() const { return path_; }
  // False: a single-threaded program, where its next event serves a request.
  bool has_listener() const;
  format::FileHeader header() const;  // as it is now

  // Asks and waits. `text`: of a mark, at most kLongestMark bytes. nullopt: no answer in time; the request is withdrawn and
  // was not acted on. Throws TargetError when the target ends meanwhile.
  std::optional<Answer> ask(format::Request request, std::chrono::milliseconds timeout, std::string_view text = {});

 private:
  void find(const LiveProcess& target, format::Request purpose);
  bool try_mapping(const std::string& path, std::uint64_t inode, bool named_as_trace);
  bool answered(std::uint32_t asked, std::chrono::steady_clock::time_point until) const;

  const LiveProcess& target_;
  std::string path_;
  int file_ = -1;
  format::FileHeader* header_ = nullptr;
};

// Where the trace can be read that the target's recorder writes; "": it does not run under one, or its trace is out of reach.
std::string trace_of(const LiveProcess& target);

}  // namespace heapspy::process
