#include "analyzer/symbols/perf_map.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace heapspy::symbols {

namespace {

constexpr std::size_t kLookBack = 64;  // codes that begin before an address and may still reach it

}  // namespace

std::optional<PerfMap> PerfMap::read(const std::string& path, std::uint64_t not_before) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  const auto written =
      static_cast<std::uint64_t>(about.st_mtim.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(about.st_mtim.tv_nsec);
  if (written < not_before) return std::nullopt;
  std::ifstream file(path);
  if (!file) return std::nullopt;
  PerfMap map;
  for (std::string line; std::getline(file, line);) {
    char* at = nullptr;
    const std::uint64_t begin = std::strtoull(line.c_str(), &at, 16);
    const std::uint64_t size = std::strtoull(at, &at, 16);
    while (*at == ' ') at++;
    if (size == 0 || *at == 0 || begin + size < begin) continue;
    map.codes_.push_back({begin, begin + size, at});
  }
  std::stable_sort(map.codes_.begin(), map.codes_.end(), [](const Code& a, const Code& b) { return a.begin < b.begin; });
  return map;
}

const std::string* PerfMap::find(std::uint64_t address) const {
  auto at = std::upper_bound(codes_.begin(), codes_.end(), address,
                             [](std::uint64_t wanted, const Code& code) { return wanted < code.begin; });
  for (std::size_t back = 0; at != codes_.begin() && back < kLookBack; back++)
    if ((--at)->end > address) return &at->name;
  return nullptr;
}

}  // namespace heapspy::symbols
