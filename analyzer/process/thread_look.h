// What the kernel says of the threads of a live process at one moment.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/process/live_process.h"

namespace heapspy::process {

struct ThreadLook {
  pid_t tid = 0;
  std::string name;  // at most 15 characters
  char state = '?';
  double cpu_s = 0;  // used so far
};

// The text of /proc/PID/task/TID/stat. nullopt: it is damaged. `ticks_per_second`: of its times.
std::optional<ThreadLook> parse_thread_stat(std::string_view text, double ticks_per_second);

std::vector<ThreadLook> look_at_threads(const LiveProcess&);

}  // namespace heapspy::process
