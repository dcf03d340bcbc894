#include "analyzer/report/diff_sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

namespace heapspy::report {
namespace {

using Value = std::optional<double>;

// Where the symbols are known the build may be another one.
std::string spelled(const SiteReport& site) {
  std::string text;
  for (const FrameReport& frame : site.frames)
    text += (frame.function.empty()
                 ? fmt::format("{}+{:x}", frame.module.str().substr(frame.module.str().rfind('/') + 1), frame.offset)
                 : frame.function.str()) +
            '\n';
  return text;
}

struct Sums {
  Value live = 0.0, peak = 0.0, pinned = 0.0, end_live = 0.0;
  double bytes = 0, allocations = 0;

  void add(const SiteReport& site) {
    const auto sum = [](Value& to, const std::optional<std::uint64_t>& figure) {
      to = to && figure ? Value(*to + static_cast<double>(*figure)) : Value{};
    };
    sum(live, site.live_bytes);
    sum(peak, site.peak_bytes);
    sum(pinned, site.pinned_bytes);
    sum(end_live, site.end_live_bytes);
    bytes += static_cast<double>(site.bytes);
    allocations += static_cast<double>(site.allocations);
  }
};

struct Pair {
  const SiteReport* site = nullptr;
  Sums before, after;
};

}  // namespace

std::vector<ComparedSites> compare_sites(const Report& before, const Report& after) {
  if (before.trace.stacks == "none" || after.trace.stacks == "none") return {};
  std::unordered_map<std::string, Pair> pairs;
  std::vector<const Pair*> order;
  for (const Report* report : {&before, &after})
    for (const SiteReport& site : report->sites) {
      const auto [found, is_new] = pairs.try_emplace(spelled(site));
      Pair& pair = found->second;
      if (is_new) order.push_back(&pair);
      pair.site = &site;
      (report == &before ? pair.before : pair.after).add(site);
    }
  std::vector<ComparedSites> sites;
  for (const Pair* pair : order) {
    const Sums &a = pair->before, &b = pair->after;
    sites.push_back({pair->site->frames,
                     {{{"live_bytes"}, Unit::bytes, a.live, b.live},
                      {{"peak_bytes"}, Unit::bytes, a.peak, b.peak},
                      {{"bytes"}, Unit::bytes, a.bytes, b.bytes},
                      {{"allocations"}, Unit::count, a.allocations, b.allocations},
                      {{"pinned_bytes"}, Unit::bytes, a.pinned, b.pinned},
                      {{"end_live_bytes"}, Unit::bytes, a.end_live, b.end_live}}});
  }
  const auto change = [](const ComparedSites& each, std::size_t figure) {
    return std::fabs(each.figures[figure].change().value_or(0));
  };
  std::stable_sort(sites.begin(), sites.end(), [&](const ComparedSites& x, const ComparedSites& y) {
    return change(x, 0) != change(y, 0) ? change(x, 0) > change(y, 0) : change(x, 2) > change(y, 2);
  });
  return sites;
}

}  // namespace heapspy::report
