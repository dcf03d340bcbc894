#include "analyzer/report/inspection_ledger.h"

#include <algorithm>
#include <unordered_set>

#include "analyzer/ledger/rss_ledger.h"
#include "analyzer/ledger/same_mapping.h"

namespace heapspy::report {
namespace {

class Shares {
 public:
  explicit Shares(const std::vector<process::Mapping>& mappings) : mappings_(mappings), shares_(mappings.size()) {}

  // The share of the mapping that holds `address`; nullptr: none does (the process changed meanwhile).
  model::MappingShare* at(std::uint64_t address) {
    auto above = std::upper_bound(mappings_.begin(), mappings_.end(), address,
                                  [](std::uint64_t a, const process::Mapping& m) { return a < m.start; });
    if (above == mappings_.begin() || address >= std::prev(above)->end) return nullptr;
    const auto index = static_cast<std::size_t>(above - mappings_.begin()) - 1;
    shares_[index].mapping = static_cast<std::uint32_t>(index);
    return &shares_[index];
  }
  std::vector<model::MappingShare> take() {
    std::erase_if(shares_, [](const model::MappingShare& each) { return each.parts.sum() + each.unsplit_bytes == 0; });
    return std::move(shares_);
  }

 private:
  const std::vector<process::Mapping>& mappings_;
  std::vector<model::MappingShare> shares_;
};

// Blocks in use are `live` here, with headers and rounding: a heap does not say what was asked for.
model::ResidentParts parts_of(const heap::ResidentParts& from) {
  model::ResidentParts to;
  to.live = from.in_use;
  to.pinned = from.pinned;
  to.trimmable = from.trimmable;
  to.cached = from.cached;
  return to;
}

void share_heaps(const heap::TakenApart& apart, Shares& shares) {
  for (std::size_t r = 0; r < apart.copy.regions.size(); r++) {
    const heap::RegionAccount& region = apart.account.regions[r];
    model::MappingShare* share = shares.at(apart.copy.regions[r].start);
    if (!share) continue;
    if (!region.resident) {
      share->unsplit_bytes += region.resident_bytes.value_or(0);
      continue;
    }
    const model::ResidentParts parts = parts_of(*region.resident);
    share->parts.live += parts.live;
    share->parts.pinned += parts.pinned;
    share->parts.trimmable += parts.trimmable;
    share->parts.cached += parts.cached;
  }
  for (const heap::MappedBlock& block : apart.copy.mapped)
    if (model::MappingShare* share = shares.at(block.start)) share->parts.live += block.resident_bytes.value_or(0);
}

}  // namespace

void add_rss(Inspection& inspection, const std::vector<process::Mapping>& mappings, process::Evidence evidence) {
  if (mappings.empty()) return;
  model::Moment moment;
  moment.rss_bytes = 0;
  for (const process::Mapping& each : mappings) {
    moment.mappings.push_back(ledger::same_mapping<trace::Mapping>(each));
    *moment.rss_bytes += each.rss_bytes;
  }
  moment.stack_addresses = evidence.stack_pointers;
  std::unordered_set<std::uint64_t> heaps;
  if (inspection.heap) {
    Shares shares(mappings);
    share_heaps(*inspection.heap, shares);
    moment.heap.shares = shares.take();
    for (const heap::HeapRegion& region : inspection.heap->copy.regions)
      if (region.secondary) {
        format::HeapRecord record{};
        record.address = region.start;
        moment.heaps.push_back(record);
        heaps.insert(region.start);
      }
  }
  evidence.heap_at = [&heaps](std::uint64_t address) { return std::optional<bool>(heaps.contains(address)); };
  inspection.kinds = process::sum_by_kind(mappings, process::classify(mappings, evidence)).kinds;
  const ledger::RssLedger ledger = ledger::rss_ledger(moment);
  inspection.rss.total_bytes = ledger.total_bytes;
  inspection.rss.notes = ledger.notes;
  for (const ledger::Part& part : ledger.parts) {
    if (part.kind == ledger::PartKind::malloc_overhead) continue;  // within the next
    const bool malloc = part.kind <= ledger::PartKind::malloc_unsplit;
    if (malloc && !inspection.heap) continue;
    inspection.rss.parts.push_back(
        {part.kind == ledger::PartKind::malloc_live ? kInUsePart : std::string(ledger::name(part.kind)), part.bytes});
  }
}

void add_kinds(Inspection& inspection, const std::vector<process::Mapping>& mappings) {
  inspection.kinds = process::sum_by_kind(mappings, process::classify(mappings, {})).kinds;
}

}  // namespace heapspy::report
