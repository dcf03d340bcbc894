// CPU time that control groups grant: the kernel stops a group that has had its quota until the next period begins.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "analyzer/process/live_process.h"

namespace heapspy::process {

// Content of the files that say so, by name: "cpu.max" ("150000 100000", "max 100000"), or in version 1 "cpu.cfs_quota_us" (-1:
// none) and "cpu.cfs_period_us". Those of groups above have "../" before their names, once for each. As in a trace's snapshot.
using CgroupFiles = std::map<std::string, std::string>;

// CPUs whose time the tightest of these groups grants: 1.5. nullopt: none of them limits it.
std::optional<double> cpu_quota(const CgroupFiles&);

// The files for a process whose /proc/PID/cgroup is `groups`, in folders below `root`, where control groups are mounted. Groups
// that cannot be seen are left out: in a container the folder of its own group is the root.
CgroupFiles cpu_limit_files(const std::string& groups, const std::string& root = "/sys/fs/cgroup");
std::optional<double> cpu_quota(const LiveProcess&);

// CPUs that it may run on (sched_setaffinity, cpusets) as its main thread has them. nullopt: the kernel does not say.
std::optional<unsigned> cpus_allowed(const LiveProcess&);

}  // namespace heapspy::process
