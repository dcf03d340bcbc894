#include "analyzer/report/sites_build.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

namespace heapspy::report {
namespace {

using model::Figures;
using model::Moment;
using model::SiteFigures;
using model::SiteHold;
using trace::SiteId;

std::uint64_t whole(double value) { return value > 0 ? static_cast<std::uint64_t>(std::llround(value)) : 0; }

std::unordered_map<std::uint32_t, const SiteHold*> by_site(const Moment* moment) {
  std::unordered_map<std::uint32_t, const SiteHold*> holds;
  if (moment)
    for (const SiteHold& hold : moment->heap.sites) holds[index(hold.site)] = &hold;
  return holds;
}

SiteReport site_report(const SiteFigures& from) {
  SiteReport site;
  site.id = index(from.site);
  site.allocations = from.allocations;
  site.bytes = from.bytes;
  site.reallocations = from.reallocations;
  site.peak_bytes = from.peak_bytes;
  site.peak_blocks = from.peak_blocks;
  site.most_bytes = from.most_bytes;
  site.most_blocks = from.most_blocks;
  site.lifetimes_s = from.lifetimes_s;
  site.temporary = from.temporary;
  site.end_live_bytes = from.live_bytes;
  site.end_live_blocks = from.live_blocks;
  if (from.ended_blocks) site.mean_lifetime_s = from.mean_lifetime_s;
  site.ended_blocks = from.ended_blocks;
  site.copied_bytes = from.carried_bytes;
  site.moved_bytes = from.moved_bytes;
  site.final_bytes = from.final_bytes;
  site.largest_bytes = from.largest_bytes;
  for (const trace::ThreadId thread : from.threads) site.threads.push_back(index(thread));
  return site;
}

bool passes(const SiteReport& site, const SiteOptions& options) {
  if (!options.module.empty() && std::none_of(site.frames.begin(), site.frames.end(), [&](const FrameReport& frame) {
        return frame.module.str().find(options.module, frame.module.str().rfind('/') + 1) != std::string::npos;
      }))
    return false;
  return !options.pattern || std::any_of(site.frames.begin(), site.frames.end(), [&](const FrameReport& frame) {
    return std::regex_search(frame.function.str(), *options.pattern) || std::regex_search(frame.file.str(), *options.pattern);
  });
}

std::uint64_t value(const Bytes& bytes) { return bytes.value_or(0); }

// What sites are ranked by.
constexpr std::uint64_t (*kRanks[])(const SiteReport&) = {
    [](const SiteReport& s) { return value(s.live_bytes); },
    [](const SiteReport& s) { return value(s.peak_bytes); },
    [](const SiteReport& s) { return s.bytes; },
    [](const SiteReport& s) { return s.allocations; },
    [](const SiteReport& s) { return value(s.temporary); },
    [](const SiteReport& s) { return value(s.pinned_bytes); },
    [](const SiteReport& s) { return value(s.end_live_bytes); },
    [](const SiteReport& s) { return s.copied_bytes; },
};

std::set<std::size_t> largest(const std::vector<SiteReport>& sites, std::size_t most) {
  std::set<std::size_t> chosen;
  std::vector<std::size_t> order(sites.size());
  for (std::size_t i = 0; i < order.size(); i++) order[i] = i;
  for (const auto rank : kRanks) {
    const std::size_t count = std::min(most, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](std::size_t a, std::size_t b) {
                        const std::uint64_t x = rank(sites[a]), y = rank(sites[b]);
                        return x != y ? x > y : sites[a].id < sites[b].id;
                      });
    for (std::size_t i = 0; i < count && rank(sites[order[i]]); i++) chosen.insert(order[i]);
  }
  return chosen;
}

void sort_sites(std::vector<SiteReport>& sites) {
  std::stable_sort(sites.begin(), sites.end(), [](const SiteReport& a, const SiteReport& b) {
    if (value(a.live_bytes) != value(b.live_bytes)) return value(a.live_bytes) > value(b.live_bytes);
    if (value(a.peak_bytes) != value(b.peak_bytes)) return value(a.peak_bytes) > value(b.peak_bytes);
    return a.bytes > b.bytes;
  });
}

std::set<std::size_t> with_any_figure(const std::vector<SiteReport>& sites) {
  std::set<std::size_t> chosen;
  for (std::size_t i = 0; i < sites.size(); i++)
    if (std::any_of(std::begin(kRanks), std::end(kRanks), [&](const auto rank) { return rank(sites[i]) > 0; }))
      chosen.insert(chosen.end(), i);
  return chosen;
}

}  // namespace

void keep_largest_sites(Report& report, std::size_t most) {
  std::vector<SiteReport> kept;
  for (const std::size_t i : largest(report.sites, most)) kept.push_back(std::move(report.sites[i]));  // in their order
  report.sites_left_out += report.sites.size() - kept.size();
  report.sites = std::move(kept);
}

void add_site_figures(std::vector<SiteReport>& sites, const Figures& figures, const Moment* at, const Moment* end) {
  const auto held = by_site(at), left = by_site(end);
  for (const SiteFigures& from : figures.sites) {
    SiteReport& site = sites.emplace_back(site_report(from));
    const auto hold = held.find(site.id);
    if (at) site.live_bytes = hold == held.end() ? 0 : whole(hold->second->live_bytes);
    if (at) site.live_blocks = hold == held.end() ? 0 : whole(hold->second->live_blocks);
    if (at && at->heap.process.pinned_bytes) site.pinned_bytes = hold == held.end() ? 0 : hold->second->pinned_bytes;
    if (const auto survivors = left.find(site.id); survivors != left.end())
      for (const double bytes : survivors->second->born_bytes) site.survivors.push_back(whole(bytes));
    if (figures.errors) site.temporary.reset();  // which events come next is not known
  }
}

void take_sites(Report& report, std::vector<SiteReport> all, const SiteOptions& options) {
  if (options.pattern || !options.module.empty())
    std::erase_if(all, [&](const SiteReport& site) { return !passes(site, options); });
  for (SiteReport& site : all) {
    site.suppressed = options.suppressions.match(site.frames);
    if (site.suppressed) report.suppressed_bytes = report.suppressed_bytes.value_or(0) + value(site.end_live_bytes);
  }
  const std::set<std::size_t> chosen = options.all ? with_any_figure(all) : largest(all, options.most);
  for (const std::size_t i : chosen) report.sites.push_back(std::move(all[i]));
  report.sites_left_out = all.size() - chosen.size();
  sort_sites(report.sites);
}

void add_sites(Report& report, SiteBook& book, const Figures& figures, const Moment* at, const Moment* end,
               const std::vector<SiteId>& extra, const SiteOptions& options) {
  std::vector<SiteReport> all;
  add_site_figures(all, figures, at, end);
  const auto add_frames = [&](SiteReport& site) {
    site.frames = book.frames(SiteId{site.id});
    site.stack_end = book.end_word(SiteId{site.id});
  };
  for (const SiteId site : extra) book.want(site);
  if (options.pattern || !options.module.empty() || options.all || !options.suppressions.empty()) {
    for (const SiteReport& site : all) book.want(SiteId{site.id});
    book.look_up(options.progress);
    for (SiteReport& site : all) add_frames(site);
    take_sites(report, std::move(all), options);
  } else {  // few symbols are enough
    const std::size_t count = all.size();
    const std::set<std::size_t> chosen = largest(all, options.most);
    for (const std::size_t i : chosen) book.want(SiteId{all[i].id});
    book.look_up(options.progress);
    for (const std::size_t i : chosen) {
      add_frames(all[i]);
      report.sites.push_back(std::move(all[i]));
    }
    report.sites_left_out = count - chosen.size();
    sort_sites(report.sites);
  }
  report.modules = book.modules();
}

}  // namespace heapspy::report
