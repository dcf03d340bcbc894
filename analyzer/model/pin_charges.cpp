#include "analyzer/model/pin_charges.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace heapspy::model {

using trace::Block;
using trace::ThreadId;

namespace {

std::size_t pin_size(std::uint64_t size) {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(size >> 4)), kPinSizes - 1);
}

}  // namespace

void PinCharges::charge(std::size_t top_blocks, ArenaState& state) {
  ThreadTable<Charge> charges;
  std::vector<PinnedBy> top;
  const auto less = [](const PinnedBy& a, const PinnedBy& b) { return a.bytes > b.bytes; };  // heap: smallest first
  in_.for_each_live([&](const Block& block) {
    const Span span = occupied(in_.facts, block.address, block.size);
    const std::uint64_t first = page_of(span.begin), last = page_of(span.end - 1);
    double bytes = share_of(first);
    if (last != first) bytes += share_of(last);  // pages between are its own as a whole
    if (bytes <= 0) return;
    Charge& charge = charges[block.thread];
    charge.bytes += bytes;
    charge.blocks++;
    for (PinRow* row : {&state.pins_by_size[pin_size(block.size)], &state.pins_by_age[age_of(block)]}) {
      row->bytes += bytes;
      row->blocks++;
    }
    if (in_.sites && in_.sites->filter.passes(block)) {
      Charge& of_site = site_charges_[index(block.site)];  // a live block: it is there
      of_site.bytes += bytes;
      of_site.blocks++;
    }
    if (top.size() < top_blocks) {
      top.push_back({bytes, block});
      std::push_heap(top.begin(), top.end(), less);
    } else if (top_blocks && bytes > top.front().bytes) {
      std::pop_heap(top.begin(), top.end(), less);
      top.back() = {bytes, block};
      std::push_heap(top.begin(), top.end(), less);
    }
  });
  std::sort(top.begin(), top.end(), [](const PinnedBy& a, const PinnedBy& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.block.address < b.block.address;
  });
  for (const PinnedBy& one : top) state.pinning.push_back({one.block, static_cast<std::uint64_t>(std::llround(one.bytes))});
  state.pins = apportion(charges, state.process.pinned_bytes.value_or(0));
  apportion_to_sites(state.process.pinned_bytes.value_or(0));
}

std::vector<SiteHold> PinCharges::site_holds() {
  std::erase_if(site_holds_, [](const SiteHold& hold) { return hold.live_blocks <= 0; });
  return std::move(site_holds_);
}

// What a live block on this page is charged for it.
double PinCharges::share_of(std::uint64_t page) const {
  const PageCounts counts = in_.pages.page(page);
  if (counts.blocks == 0 || counts.used >= kPageBytes) return 0;
  const std::size_t h = map_.heap_of(page);
  if (h == ArenaMap::npos && !other_pages_.contains(page)) return 0;
  if (!residency_.resident(page).value_or(false)) return 0;
  const std::uint64_t header = h == ArenaMap::npos ? 0 : map_.heaps()[h].header_on(page);
  const std::uint64_t used = std::min<std::uint64_t>(kPageBytes, counts.used + header);
  return static_cast<double>(kPageBytes - used) / counts.blocks;
}

// Whole bytes that sum to `total`: what rounding down leaves goes to those that lost most by it.
std::vector<ThreadPin> PinCharges::apportion(ThreadTable<Charge>& charges, std::uint64_t total) {
  std::vector<ThreadPin> pins;
  std::vector<std::pair<double, std::size_t>> fractions;
  std::uint64_t given = 0;
  charges.for_each([&](ThreadId id, const Charge& charge) {
    if (charge.blocks == 0) return;
    const auto whole = static_cast<std::uint64_t>(charge.bytes);
    fractions.emplace_back(charge.bytes - static_cast<double>(whole), pins.size());
    pins.push_back({id, whole, charge.blocks});
    given += whole;
  });
  std::sort(fractions.begin(), fractions.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (std::size_t i = 0; i < fractions.size() && given < total; i++, given++) pins[fractions[i].second].bytes++;
  std::stable_sort(pins.begin(), pins.end(), [](const ThreadPin& a, const ThreadPin& b) { return a.bytes > b.bytes; });
  return pins;
}

void PinCharges::belongs_to_site(const Block& block) {
  if (index(block.site) >= site_holds_.size()) {
    site_holds_.resize(index(block.site) + 1);
    site_charges_.resize(index(block.site) + 1);
  }
  SiteHold& hold = site_holds_[index(block.site)];
  hold.site = block.site;
  const double weight = in_.sites->weight_of(block.size), bytes = weight * static_cast<double>(block.size);
  hold.live_blocks += weight;
  hold.live_bytes += bytes;
  hold.born_bytes[age_of(block)] += bytes;
}

// In which part of the time from the start to the moment it was allocated.
std::size_t PinCharges::age_of(const Block& block) const {
  const double age = in_.tick ? static_cast<double>(block.born) / static_cast<double>(in_.tick) : 0;
  return std::min(static_cast<std::size_t>(age * SiteHold::kAges), SiteHold::kAges - 1);
}

// As apportion(). Where blocks are left out, each site's bytes are rounded down.
void PinCharges::apportion_to_sites(std::uint64_t total) {
  std::vector<std::pair<double, std::size_t>> fractions;
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < site_charges_.size(); i++) {
    if (site_charges_[i].blocks == 0) continue;
    const auto whole = static_cast<std::uint64_t>(site_charges_[i].bytes);
    fractions.emplace_back(site_charges_[i].bytes - static_cast<double>(whole), i);
    site_holds_[i].pinned_bytes = whole;
    site_holds_[i].pinning_blocks = site_charges_[i].blocks;
    given += whole;
  }
  if (!in_.sites || !in_.sites->filter.everything()) return;
  std::stable_sort(fractions.begin(), fractions.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (std::size_t i = 0; i < fractions.size() && given < total; i++, given++) site_holds_[fractions[i].second].pinned_bytes++;
}

}  // namespace heapspy::model
