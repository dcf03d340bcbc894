#include "analyzer/process/cpu_quota.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace heapspy::process {
namespace {

constexpr const char* kOneFile = "cpu.max";
constexpr const char *kQuota = "cpu.cfs_quota_us", *kPeriod = "cpu.cfs_period_us";

// Both in microseconds. nullopt: no limit ("max", -1), or no such texts.
std::optional<double> share(const std::string& quota, const std::string& period) {
  char* end = nullptr;
  const double time = std::strtod(quota.c_str(), &end);
  if (end == quota.c_str() || !(time > 0)) return std::nullopt;
  const double of = std::strtod(period.c_str(), &end);
  return end != period.c_str() && of > 0 ? std::optional<double>(time / of) : std::nullopt;
}

// The folder of its group that a process's list of groups names, in version 1 or 2: what is mounted, and the path below it.
struct Place {
  std::string mounted, path;
};

std::optional<Place> place_of(const std::string& groups, const std::string& root) {
  std::optional<Place> place;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // number:controller,controller:/path
    const std::size_t first = line.find(':'), second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers.find(",cpu,") != std::string::npos) return Place{root + "/cpu", line.substr(second + 1)};
    if (line.starts_with("0::")) place = Place{root, line.substr(second + 1)};
  }
  return place;
}

}  // namespace

std::optional<double> cpu_quota(const CgroupFiles& files) {
  std::optional<double> least;
  for (const auto& [name, content] : files) {
    const std::string above = name.substr(0, name.find_first_not_of("./"));
    std::optional<double> quota;
    if (name == above + kOneFile) {
      const std::size_t space = content.find(' ');
      if (space != std::string::npos) quota = share(content.substr(0, space), content.substr(space));
    } else if (name == above + kQuota) {
      if (const auto period = files.find(above + kPeriod); period != files.end()) quota = share(content, period->second);
    }
    if (quota) least = std::min(*quota, least.value_or(*quota));
  }
  return least;
}

CgroupFiles cpu_limit_files(const std::string& groups, const std::string& root) {
  CgroupFiles files;
  const auto place = place_of(groups, root);
  if (!place) return files;
  std::string path = place->path == "/" ? "" : place->path, above;
  for (;; above += "../") {
    for (const char* name : {kOneFile, kQuota, kPeriod}) {
      std::ifstream file(place->mounted + path + "/" + name);
      if (file) files[above + name] = {std::istreambuf_iterator<char>(file), {}};
    }
    if (path.empty()) return files;
    path.erase(std::min(path.rfind('/'), path.size()));
  }
}

std::optional<double> cpu_quota(const LiveProcess& target) {
  return cpu_quota(cpu_limit_files(target.try_text("cgroup").value_or("")));
}

std::optional<unsigned> cpus_allowed(const LiveProcess& target) {
  cpu_set_t set;
  if (::sched_getaffinity(target.pid(), sizeof set, &set) != 0) return std::nullopt;
  return static_cast<unsigned>(CPU_COUNT(&set));
}

}  // namespace heapspy::process
