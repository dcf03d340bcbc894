// Which pages were in RAM when a snapshot was taken, by address.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "analyzer/model/heap_facts.h"
#include "analyzer/trace/snapshot.h"

namespace heapspy::model {

// A view of a snapshot's records, which must outlive it. Units are kPageBytes; a larger page of the machine counts as
// that many.
class Residency {
 public:
  Residency() = default;
  explicit Residency(const trace::Snapshot& snapshot) : snapshot_(&snapshot) {}

  // nullopt: not known.
  std::optional<bool> resident(std::uint64_t address) const {
    const trace::ResidentPages* record = record_of(address);
    if (!record) return std::nullopt;
    return record->resident((address - record->start) / snapshot_->page_bytes);
  }

  // Calls visit(page address) for each resident page of [begin, end), which must be page-aligned; false: of some pages
  // that may be resident it is not known.
  template <class Visit>
  bool for_each_resident(std::uint64_t begin, std::uint64_t end, Visit visit) const {
    if (!snapshot_) return begin >= end;
    bool known = true;
    std::uint64_t at = begin;
    for (auto record = first_record(begin); record != snapshot_->resident.end() && record->start < end; ++record) {
      const std::uint64_t from = std::max(at, record->start), to = std::min(end, record_end(*record));
      if (from >= to) continue;
      if (at < from && !nothing_there(at, from)) known = false;
      switch (record->kind) {
        case format::Residency::none: break;
        case format::Residency::all:
          for (std::uint64_t page = from; page < to; page += kPageBytes) visit(page);
          break;
        case format::Residency::bitmap: visit_bits(*record, from, to, visit); break;
        default:
          if (!nothing_there(from, to)) known = false;
          break;
      }
      at = to;
    }
    return (at >= end || nothing_there(at, end)) && known;
  }

 private:
  using Records = std::vector<trace::ResidentPages>;

  std::uint64_t record_end(const trace::ResidentPages& record) const {
    return record.start + record.pages * snapshot_->page_bytes;
  }
  Records::const_iterator first_record(std::uint64_t address) const {  // that ends after `address`
    const Records& all = snapshot_->resident;
    auto above = std::upper_bound(all.begin(), all.end(), address,
                                  [](std::uint64_t a, const trace::ResidentPages& r) { return a < r.start; });
    if (above != all.begin() && record_end(*std::prev(above)) > address) --above;
    return above;
  }
  const trace::ResidentPages* record_of(std::uint64_t address) const {
    if (!snapshot_) return nullptr;
    const auto found = first_record(address);
    return found != snapshot_->resident.end() && found->start <= address ? &*found : nullptr;
  }

  // No mapping in [begin, end) has resident pages as far as smaps knows.
  bool nothing_there(std::uint64_t begin, std::uint64_t end) const {
    const auto& all = snapshot_->mappings;
    auto at =
        std::upper_bound(all.begin(), all.end(), begin, [](std::uint64_t a, const trace::Mapping& m) { return a < m.end; });
    for (; at != all.end() && at->start < end; ++at)
      if (at->rss_bytes) return false;
    return true;
  }

  template <class Visit>
  void visit_bits(const trace::ResidentPages& record, std::uint64_t from, std::uint64_t to, Visit& visit) const {
    const std::uint64_t unit = snapshot_->page_bytes;
    const std::uint64_t last = std::min<std::uint64_t>((to - record.start + unit - 1) / unit, record.bitmap.size() * 64);
    for (std::uint64_t i = (from - record.start) / unit; i < last;) {
      const std::uint64_t rest = record.bitmap[i / 64] >> (i % 64);
      if (rest == 0) {
        i = (i / 64 + 1) * 64;
        continue;
      }
      i += static_cast<unsigned>(std::countr_zero(rest));
      if (i >= last) break;
      const std::uint64_t page = record.start + i * unit;
      for (std::uint64_t a = std::max(page, from); a < std::min(page + unit, to); a += kPageBytes) visit(a);
      i++;
    }
  }

  const trace::Snapshot* snapshot_ = nullptr;
};

}  // namespace heapspy::model
