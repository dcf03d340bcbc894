// The control group that this process's memory is charged to, as its files show it.
// Under one thread at a time (upkeep, or the snapshot lock) for path(); files() may be called by any. Nothing allocates.
#pragma once
#include <cstddef>
#include <cstdint>

namespace heapspy::cgroup {

struct Files {
  bool version_1;
  const char* names[5];  // what a snapshot keeps; current and limit first; ends with null where there are fewer
};
Files files();
// Where a file of it is. False: no cgroup.
bool path(const Files& files, const char* name, char* to, size_t room);

struct Usage {
  uint64_t current_bytes = 0;
  uint64_t limit_bytes = 0;  // 0: none
};
Usage usage();

}  // namespace heapspy::cgroup
