#include "analyzer/report/site_facts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "analyzer/findings/verdicts.h"
#include "analyzer/report/java_build.h"
#include "analyzer/report/java_facts.h"

namespace heapspy::report {
namespace {

using model::Figures;
using model::Moment;
using model::SiteFigures;
using model::SiteHold;
using trace::SiteId;

constexpr std::size_t kNamed = 5;  // of each kind; verdicts name fewer

// The ids of those with the largest figures.
template <typename Each, typename Figure>
void add_largest(std::vector<SiteId>& to, const std::vector<Each>& all, Figure figure) {
  std::vector<const Each*> order;
  for (const Each& each : all)
    if (figure(each) > 0 && each.site != SiteId::none) order.push_back(&each);
  const std::size_t count = std::min(kNamed, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](const Each* a, const Each* b) { return figure(*a) > figure(*b); });
  for (std::size_t i = 0; i < count; i++) to.push_back(order[i]->site);
}

// Live bytes that were not there yet when the run had begun.
double growth(const SiteHold& hold) {
  double bytes = 0;
  for (std::size_t i = 1; i < SiteHold::kAges; i++) bytes += hold.born_bytes[i];
  return bytes;
}

std::uint64_t whole(double value) { return value > 0 ? static_cast<std::uint64_t>(std::llround(value)) : 0; }

// Where Java code called a native library that is not the JDK's.
void set_jni_library(findings::SiteFacts& site, const trace::Stack& stack, const trace::Reader& reader) {
  const std::string library = library_called_by_java(stack, reader);
  if (library.empty() || is_jdk_library(library, reader)) return;
  site.jni_library = library.substr(library.rfind('/') + 1);
  site.java_caller = java_caller(stack, reader);
}

}  // namespace

std::vector<SiteId> sites_of_facts(const Figures& figures, std::initializer_list<const Moment*> moments) {
  std::vector<SiteId> sites;
  for (const Moment* moment : moments) {
    if (!moment) continue;
    add_largest(sites, moment->heap.sites, [](const SiteHold& hold) { return static_cast<double>(hold.pinned_bytes); });
    add_largest(sites, moment->heap.sites, growth);
    for (const Moment::FreedSite& each : moment->freed_sites) sites.push_back(each.site);
    for (const model::ArenaFigures& arena : moment->heap.arenas)
      if (arena.plug && arena.plug->block.site != SiteId::none) sites.push_back(arena.plug->block.site);
  }
  add_largest(sites, figures.sites, [](const SiteFigures& site) { return static_cast<double>(site.carried_bytes); });
  std::sort(sites.begin(), sites.end());
  sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
  return sites;
}

void add_sites(findings::Facts& facts, const Report& report, const Figures& figures, const Moment& moment, const SiteBook& book,
               const Suppressions& suppressions, const trace::Reader& reader) {
  const Moment* end = figures.at(model::Why::end);
  const std::vector<SiteId> named = sites_of_facts(figures, {&moment, end});
  std::map<SiteId, findings::SiteFacts> sites;
  for (const SiteId id : named) {
    findings::SiteFacts& site = sites[id];
    site.where = book.where(id);
    site.suppressed = suppressions.match(book.frames(id));
    if (facts.java) set_jni_library(site, reader.stacks().stack(id), reader);
  }
  for (const SiteFigures& from : figures.sites) {
    const auto found = sites.find(from.site);
    if (found == sites.end()) continue;
    findings::SiteFacts& site = found->second;
    site.allocations = from.allocations;
    site.end_live_bytes = from.live_bytes;
    site.end_live_blocks = from.live_blocks;
    site.reallocations = from.reallocations;
    site.copied_bytes = from.carried_bytes;
    site.moved_bytes = from.moved_bytes;
    site.final_bytes = from.final_bytes;
    site.largest_bytes = from.largest_bytes;
  }
  for (const SiteHold& hold : moment.heap.sites)
    if (const auto found = sites.find(hold.site); found != sites.end()) {
      found->second.pinned_bytes = hold.pinned_bytes;
      found->second.pinning_blocks = hold.pinning_blocks;
    }
  if (end)
    for (const SiteHold& hold : end->heap.sites) {
      if (const auto found = sites.find(hold.site); found != sites.end())
        for (const double bytes : hold.born_bytes) found->second.survivors.push_back(whole(bytes));
    }
  for (const SiteReport& site : report.sites)  // all that are suppressed, where any pattern was given
    if (site.suppressed && !site.survivors.empty())
      for (std::size_t i = 1; i < site.survivors.size(); i++) facts.suppressed_growth_bytes += site.survivors[i];
  for (auto& [id, site] : sites)
    if (!site.where.empty()) facts.sites.push_back(std::move(site));
  if (!facts.pinners.empty())
    for (const model::Moment::FreedSite& from : moment.freed_sites)
      facts.freed_sites.push_back({book.where(from.site), from.blocks, from.live_bytes, from.returned_bytes});
  if (facts.arenas.size() != moment.heap.arenas.size()) return;
  for (std::size_t i = 0; i < facts.arenas.size(); i++)
    if (facts.arenas[i].plug) facts.arenas[i].plug->site = book.where(moment.heap.arenas[i].plug->block.site);
}

}  // namespace heapspy::report
