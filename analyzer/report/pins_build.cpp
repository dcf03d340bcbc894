#include "analyzer/report/pins_build.h"

#include <cmath>
#include "analyzer/report/rounded.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kBlocks = 10;

}  // namespace

std::vector<trace::SiteId> sites_of_pins(const model::Moment& moment) {
  std::vector<trace::SiteId> sites;
  for (std::size_t i = 0; i < moment.heap.pinning.size() && i < kBlocks; i++)
    sites.push_back(moment.heap.pinning[i].block.site);
  for (const model::Moment::FreedSite& each : moment.freed_sites) sites.push_back(each.site);
  for (const model::ArenaFigures& arena : moment.heap.arenas)
    if (arena.plug) sites.push_back(arena.plug->block.site);
  std::erase(sites, trace::SiteId::none);
  return sites;
}

PinsReport pins_report(const model::Moment& moment, const trace::Reader& reader, const SiteBook* book) {
  PinsReport pins;
  pins.bytes = moment.heap.process.pinned_bytes;
  if (!pins.bytes) return pins;
  const auto where = [&](trace::SiteId site) {
    return book && site != trace::SiteId::none ? book->where(site) : std::string();
  };
  for (const model::PinningBlock& from : moment.heap.pinning) {
    if (pins.blocks.size() == kBlocks || from.bytes == 0) break;
    const trace::Block& block = from.block;
    PinsReport::Block& to = pins.blocks.emplace_back();
    to.address = block.address;
    to.size = block.size;
    to.bytes = from.bytes;
    to.thread = index(block.thread);
    to.site = index(block.site);
    if (block.known && block.born <= moment.tick)
      to.age_s = reader.clock().seconds(moment.tick) - reader.clock().seconds(block.born);
    to.where = where(block.site);
  }
  for (std::size_t i = 0; i < model::kPinSizes; i++) {
    const model::PinRow& row = moment.heap.pins_by_size[i];
    if (!row.blocks) continue;
    PinsReport::Row to{i ? std::ldexp(8, static_cast<int>(i)) : 0, std::ldexp(16, static_cast<int>(i)), row.blocks,
                       rounded(row.bytes)};
    if (i + 1 == model::kPinSizes) to.to.reset();
    pins.sizes.push_back(to);
  }
  const double moment_s = reader.clock().seconds(moment.tick);
  for (std::size_t i = 0; i < model::SiteHold::kAges; i++) {
    const model::PinRow& row = moment.heap.pins_by_age[i];
    const double part = moment_s / static_cast<double>(model::SiteHold::kAges);
    if (row.blocks)
      pins.ages.push_back({static_cast<double>(i) * part, static_cast<double>(i + 1) * part, row.blocks, rounded(row.bytes)});
  }
  for (const model::Moment::FreedSite& from : moment.freed_sites)
    pins.let_go.push_back({index(from.site), where(from.site), from.blocks, from.live_bytes, from.returned_bytes});
  return pins;
}

}  // namespace heapspy::report
