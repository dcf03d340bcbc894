#include "analyzer/findings/leaked_sites.h"

namespace heapspy::findings {
namespace {

constexpr double kSteadyParts = 0.7;  // a site leaks if blocks of so many parts of the run, the first and last apart, are left
constexpr double kEven = 0.3;         // each part but the last has at least so much of the mean of them

}  // namespace

std::uint64_t leaked(const SiteFacts& site) {
  if (site.suppressed || site.survivors.size() < 3) return 0;
  std::uint64_t bytes = 0;
  std::size_t parts = 0;
  for (std::size_t i = 1; i < site.survivors.size(); i++) {
    bytes += site.survivors[i];
    parts += i + 1 < site.survivors.size() && site.survivors[i] > 0;
  }
  return static_cast<double>(parts) >= kSteadyParts * static_cast<double>(site.survivors.size() - 2) ? bytes : 0;
}

std::uint64_t leaked_evenly(const SiteFacts& site) {
  const std::uint64_t bytes = leaked(site);
  if (!bytes) return 0;
  const std::size_t parts = site.survivors.size() - 2;
  std::uint64_t sum = 0;
  for (std::size_t i = 1; i <= parts; i++) sum += site.survivors[i];
  const double mean = static_cast<double>(sum) / static_cast<double>(parts);
  std::size_t low = 0;
  for (std::size_t i = 1; i <= parts; i++) low += static_cast<double>(site.survivors[i]) < kEven * mean;
  return low <= 1 ? bytes : 0;
}

}  // namespace heapspy::findings
