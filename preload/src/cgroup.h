// The control groups that this process's memory and CPU time are charged to, as their files show them.
// Under one thread at a time (upkeep, or the snapshot lock) for the paths; files() may be called by any. Nothing allocates.
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

// The folder of the group that limits CPU time and (above 1, 2 …) of those it is in, up to the outermost that can be seen here:
// the tightest of their limits holds. As files() has found them. False: there is none so far above.
bool cpu_folder(unsigned above, char* to, size_t room);
// What says how much time a group gets, in version 2 and in version 1.
inline constexpr const char* kCpuFiles[] = {"cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"};

struct Usage {
  uint64_t current_bytes = 0;
  uint64_t limit_bytes = 0;  // 0: none
};
Usage usage();

}  // namespace heapspy::cgroup
