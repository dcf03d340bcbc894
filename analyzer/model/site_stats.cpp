#include "analyzer/model/site_stats.h"

#include <algorithm>
#include <cmath>

namespace heapspy::model {

using trace::Block;
using trace::SiteId;
using trace::ThreadId;
using trace::Tick;

SiteStats::SiteStats(const SiteScope& scope, const trace::Clock& clock)
    : scope_(scope), lives_(clock), seconds_per_tick_(clock.seconds(1'000'000'000) / 1e9) {}

SiteStats::Site& SiteStats::at(SiteId site) {
  if (index(site) >= sites_.size()) sites_.resize(index(site) + 1);
  return sites_[index(site)];
}

// A site's bytes are about to change: what it holds now is what it held at the latest peak, unless that was noted before.
void SiteStats::keep_peak(Site& site) const {
  if (site.peak == peaks_) return;
  site.bytes_at_peak = site.live_bytes;
  site.blocks_at_peak = site.live_blocks;
  site.peak = peaks_;
}

void SiteStats::grown() {
  if (live_bytes_ <= peak_bytes_) return;
  peak_bytes_ = live_bytes_;
  peaks_++;
}

void SiteStats::hold(const Block& block, double weight) {
  if (!scope_.filter.passes(block)) return;
  Site& site = at(block.site);
  keep_peak(site);
  site.live_blocks += weight;
  site.live_bytes += weight * static_cast<double>(block.size);
  site.born_ticks += weight * static_cast<double>(block.born);
  if (site.live_bytes <= site.most_bytes) return;
  site.most_bytes = site.live_bytes;
  site.most_blocks = site.live_blocks;
}

void SiteStats::let_go(const Block& block, double weight) {
  live_bytes_ -= weight * static_cast<double>(block.size);
  if (scope_.filter.passes(block)) {
    Site& site = at(block.site);
    keep_peak(site);
    site.live_blocks -= weight;
    site.live_bytes -= weight * static_cast<double>(block.size);
    site.born_ticks -= weight * static_cast<double>(block.born);
  }
}

void SiteStats::belongs(Site& site, SiteId id, ThreadId thread) {
  if (site.last_thread == thread) return;
  site.last_thread = thread;
  if (members_.insert(std::uint64_t{index(id)} << 32 | index(thread)).second) site.threads.push_back(thread);
}

void SiteStats::ended_by_another(Site& site, ThreadId thread, double weight) {
  site.ended_by_others += weight;
  for (SiteFigures::Ender& ender : site.enders)
    if (ender.thread == thread) {
      ender.blocks += weight;
      return;
    }
  if (site.enders.size() < SiteFigures::kEnders) site.enders.push_back({thread, weight});
}

void SiteStats::allocated(const Block& block, Tick) {
  const double weight = scope_.weight_of(block.size);
  newest_[block.thread] = block.address;
  hold(block, weight);
  live_bytes_ += weight * static_cast<double>(block.size);
  grown();
  if (!scope_.filter.passes(block)) return;
  Site& site = at(block.site);
  site.allocations += weight;
  site.bytes += weight * static_cast<double>(block.size);
  if (block.origin == trace::Origin::realloc) site.final_bytes += weight * static_cast<double>(block.size);
  belongs(site, block.site, block.thread);
}

void SiteStats::released(const Block& block, ThreadId by, trace::Release, Tick tick) {
  const double weight = scope_.weight_of(block.size);
  std::uint64_t& newest = newest_[by];
  const bool temporary = newest == block.address && block.thread == by;
  newest = 0;
  let_go(block, weight);
  if (!scope_.filter.passes(block)) return;
  Site& site = at(block.site);
  if (temporary) site.temporary += weight;
  const Tick lived = tick > block.born ? tick - block.born : 0;
  site.ended_blocks += weight;
  if (by != block.thread) ended_by_another(site, by, weight);
  site.lived_ticks += weight * static_cast<double>(lived);
  site.lifetimes[lives_.bucket(lived)] += static_cast<float>(weight);
}

void SiteStats::resized(const Block& before, const Block& after, ThreadId by, Tick) {
  newest_[by] = 0;
  if (before.known) let_go(before, scope_.weight_of(before.size));
  const double weight = scope_.weight_of(after.size), bytes = weight * static_cast<double>(after.size);
  hold(after, weight);
  live_bytes_ += bytes;
  grown();
  if (!scope_.filter.passes(after) || after.size == 0) return;
  Site& site = at(after.site);
  site.reallocations += weight;
  site.bytes += bytes;
  site.final_bytes += bytes;
  site.largest_bytes = std::max(site.largest_bytes, after.size);
  belongs(site, after.site, by);
  if (!before.known) return;
  const double carried = weight * static_cast<double>(std::min(before.size, after.size));
  site.carried_bytes += carried;
  if (before.address != after.address) site.moved_bytes += carried;
  if (before.site == after.site && before.site != SiteId::none)
    site.final_bytes -= scope_.weight_of(before.size) * static_cast<double>(before.size);
}

void SiteStats::vanished(const Block& block, Tick) { let_go(block, scope_.weight_of(block.size)); }
void SiteStats::failed(ThreadId thread, trace::Origin, std::uint64_t, Tick) { newest_[thread] = 0; }
void SiteStats::unknown_release(ThreadId thread, std::uint64_t, trace::Release, bool, Tick) { newest_[thread] = 0; }

std::vector<SiteFigures> SiteStats::figures(Tick end) const {
  const auto whole = [](double value) { return value > 0 ? static_cast<std::uint64_t>(std::llround(value)) : 0; };
  std::vector<SiteFigures> all;
  for (std::size_t i = 0; i < sites_.size(); i++) {
    const Site& site = sites_[i];
    if (site.allocations == 0 && site.reallocations == 0) continue;
    SiteFigures f;
    f.site = SiteId{static_cast<std::uint32_t>(i)};
    f.allocations = whole(site.allocations);
    f.bytes = whole(site.bytes);
    f.reallocations = whole(site.reallocations);
    f.temporary = whole(site.temporary);
    f.peak_bytes = whole(site.peak == peaks_ ? site.bytes_at_peak : site.live_bytes);
    f.peak_blocks = whole(site.peak == peaks_ ? site.blocks_at_peak : site.live_blocks);
    f.most_bytes = whole(site.most_bytes);
    f.most_blocks = whole(site.most_blocks);
    f.live_blocks = whole(site.live_blocks);
    f.live_bytes = whole(site.live_bytes);
    f.ended_blocks = whole(site.ended_blocks);
    f.ended_by_others = whole(site.ended_by_others);
    f.enders = site.enders;
    if (site.ended_blocks > 0) f.mean_lifetime_s = site.lived_ticks / site.ended_blocks * seconds_per_tick_;
    const double living_ticks = site.live_blocks * static_cast<double>(end) - site.born_ticks;
    f.lifetimes_s = (site.lived_ticks + std::max(living_ticks, 0.0)) * seconds_per_tick_;
    for (std::size_t b = 0; b < f.lifetimes.size(); b++) f.lifetimes[b] = whole(static_cast<double>(site.lifetimes[b]));
    f.carried_bytes = whole(site.carried_bytes);
    f.moved_bytes = whole(site.moved_bytes);
    f.final_bytes = whole(site.final_bytes);
    f.largest_bytes = site.largest_bytes;
    f.threads = site.threads;
    std::sort(f.threads.begin(), f.threads.end());
    all.push_back(std::move(f));
  }
  return all;
}

}  // namespace heapspy::model
