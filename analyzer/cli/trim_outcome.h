// What a trim came to, however it was done, and how it is told.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/process/live_process.h"
#include "analyzer/process/recorder_link.h"

namespace heapspy::cli {

struct TrimOptions {
  pid_t pid = 0;
  bool json = false, with_seccomp = false;
  bool still = false;  // no other thread runs between the prediction and the end of malloc_trim
  double timeout_s = 10;
  double watch_s = 2;  // how long page faults are counted afterwards
  std::string method = "auto";
};

// An arena before the trim; `live` are bytes in use where no recorder knows what was asked for.
struct TrimmedArena {
  using Bytes = std::optional<std::uint64_t>;
  std::string label;
  Bytes system, resident, live, trimmable, pinned, cached;
};

struct PageFaults {
  std::uint64_t minor = 0, major = 0;
};

// Why there is no prediction for a process that has called mlockall.
inline constexpr const char* kLockedMemory =
    "the process has locked its memory (mlockall), of which malloc_trim returns little";

struct TrimOutcome {
  std::string method;
  std::optional<std::uint64_t> predicted, rss_before, rss_after;
  std::optional<std::int64_t> returned;
  std::string rss_source = "smaps_rollup";
  std::optional<std::uint64_t> anonymous_before, anonymous_after;  // of it; what a trim can return
  std::optional<double> duration_s;                                // of malloc_trim alone (jcmd: of the command)
  std::optional<std::uint64_t> madvise_calls;
  std::optional<double> still_s;           // how long all other threads stood still; nullopt: they ran on
  std::optional<PageFaults> faults_after;  // in the watch_s after it
  nlohmann::ordered_json arenas = nlohmann::ordered_json::array();
  std::vector<TrimmedArena> rows;
  bool live_as_asked = true;
  std::string unpredicted;  // why there is no prediction; ""
  std::string by;           // "thread 4242 at call 7", or what the JVM said
};

// By the recorder in it. Throws Failure and process::TargetError.
TrimOutcome trim_by_recorder(const process::LiveProcess&, process::RecorderLink&, const TrimOptions&);
// Without one: by the JVM itself where it can, else by one of its threads at a safe system call.
TrimOutcome trim_from_outside(const process::LiveProcess&, const TrimOptions&);

void print_trim_json(const process::LiveProcess&, const TrimOutcome&, const TrimOptions&);
void print_trim_text(const process::LiveProcess&, const TrimOutcome&, const TrimOptions&);

std::optional<PageFaults> page_faults(const process::LiveProcess&);

}  // namespace heapspy::cli
