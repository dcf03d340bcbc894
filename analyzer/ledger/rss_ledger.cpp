#include "analyzer/ledger/rss_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "analyzer/ledger/java_regions.h"
#include "analyzer/ledger/same_mapping.h"
#include "analyzer/process/mapping_kinds.h"

namespace heapspy::ledger {
namespace {

using process::MappingKind;

constexpr std::uint64_t kLargestBss = 16ull << 20;

bool is_library(MappingKind kind) { return kind == MappingKind::library_code || kind == MappingKind::library_data; }

class Sums {
 public:
  void add(PartKind kind, std::uint64_t bytes) { bytes_[static_cast<std::size_t>(kind)] += bytes; }
  std::uint64_t take(PartKind kind, std::uint64_t most) {
    std::uint64_t& from = bytes_[static_cast<std::size_t>(kind)];
    const std::uint64_t taken = std::min(from, most);
    from -= taken;
    return taken;
  }
  std::uint64_t cut(PartKind kind, std::uint64_t most) {  // down to `most`; returns what it is then
    std::uint64_t& bytes = bytes_[static_cast<std::size_t>(kind)];
    return bytes = std::min(bytes, most);
  }
  std::uint64_t operator[](PartKind kind) const { return bytes_[static_cast<std::size_t>(kind)]; }

 private:
  std::array<std::uint64_t, kParts> bytes_{};
};

class Builder {
 public:
  Builder(const model::Moment& moment, std::string_view trace_path) : moment_(moment), trace_path_(trace_path) {
    for (const trace::Mapping& m : moment.mappings) mappings_.push_back(same_mapping<process::Mapping>(m));
    process::Evidence evidence;
    std::unordered_set<std::uint64_t> heaps;
    for (const format::HeapRecord& heap : moment.heaps) heaps.insert(heap.address);
    evidence.heap_at = [&heaps](std::uint64_t address) { return std::optional<bool>(heaps.contains(address)); };
    evidence.stack_pointers = moment.stack_addresses;
    kinds_ = process::classify(mappings_, evidence).kinds;
    java_ = java_regions(mappings_, kinds_);
  }

  RssLedger build() {
    std::vector<const model::MappingShare*> shares(mappings_.size());
    for (const model::MappingShare& share : moment_.heap.shares)
      if (share.mapping < shares.size()) shares[share.mapping] = &share;
    for (std::size_t i = 0; i < mappings_.size(); i++) {
      std::uint64_t rest = mappings_[i].rss_bytes;
      if (shares[i]) rest -= add_malloc(*shares[i], rest);
      const PartKind kind = part_of(i);
      sums_.add(kind, rest);
      dirty_known_ = dirty_known_ || mappings_[i].private_dirty_bytes;
      if (kind == PartKind::heapspy) recorder_dirty_ += mappings_[i].private_dirty_bytes;
      if (kind == PartKind::other && kinds_[i] == MappingKind::anonymous) anonymous_other_ += rest;
    }
    // The recorder's private memory is anonymous like any other; its amount is known, not its place.
    const std::uint64_t own = sums_.take(PartKind::other, std::min(anonymous_other_, moment_.recorder_bytes));
    sums_.add(PartKind::heapspy, own);
    recorder_dirty_ += own;
    return result();
  }

 private:
  // Adds what malloc holds of a mapping, at most `rss`; returns how much that is.
  std::uint64_t add_malloc(const model::MappingShare& share, std::uint64_t rss) {
    const model::ResidentParts& parts = share.parts;
    if (moment_.heap.unrecorded) {
      const std::uint64_t all = std::min(rss, parts.sum() + share.unsplit_bytes);
      sums_.add(PartKind::malloc_unsplit, all);
      return all;
    }
    std::uint64_t rest = rss;
    const auto give = [&](PartKind kind, std::uint64_t bytes) {
      const std::uint64_t given = std::min(bytes, rest);
      rest -= given;
      sums_.add(kind, given);
      return given;
    };
    give(PartKind::malloc_live, parts.live);
    give(PartKind::malloc_overhead, parts.overhead);
    give(PartKind::malloc_pinned, parts.pinned);
    give(PartKind::malloc_trimmable, parts.trimmable);
    give(PartKind::malloc_cached, parts.cached);
    unsplit_ += give(PartKind::other, share.unsplit_bytes);
    return rss - rest;
  }

  PartKind part_of(std::size_t i) const {
    const process::Mapping& m = mappings_[i];
    if (is_recorders_library(m)) return PartKind::heapspy;
    if (!trace_path_.empty() && m.name.starts_with(trace_path_)) return PartKind::heapspy;
    if (java_.regions[i] == JavaRegion::heap) return PartKind::java_heap;
    if (java_.regions[i] == JavaRegion::code) return PartKind::java_code;
    switch (kinds_[i]) {
      case MappingKind::heapspy_trace: return PartKind::heapspy;
      case MappingKind::thread_stack:
      case MappingKind::main_stack: return PartKind::thread_stacks;
      case MappingKind::library_code:
      case MappingKind::library_data:
      case MappingKind::java_archive:
      case MappingKind::file:
      case MappingKind::executable_file: return PartKind::files;
      case MappingKind::shared_memory: return PartKind::shared_memory;
      case MappingKind::anonymous:
        if (!is_bss(i)) return PartKind::other;
        return is_recorders_library(mappings_[i - 1]) ? PartKind::heapspy : PartKind::files;
      default: return PartKind::other;
    }
  }

  static bool is_recorders_library(const process::Mapping& m) { return m.name.find("libheapspy.so") != std::string::npos; }

  // Memory without a name that follows the writable end of a library without a gap: its uninitialised data.
  bool is_bss(std::size_t i) const {
    return i > 0 && mappings_[i - 1].end == mappings_[i].start && is_library(kinds_[i - 1]) && mappings_[i - 1].write &&
           mappings_[i].name.empty() && mappings_[i].size_bytes() <= kLargestBss;
  }

  RssLedger result() {
    RssLedger ledger;
    ledger.total_bytes = *moment_.rss_bytes;
    if (dirty_known_) ledger.recorder_dirty_bytes = recorder_dirty_;
    std::uint64_t rest = ledger.total_bytes;
    for (std::size_t k = 0; k < kParts; k++) {
      const auto kind = static_cast<PartKind>(k);
      rest -= sums_.cut(kind, rest);
      if (!java_.jvm && (kind == PartKind::java_heap || kind == PartKind::java_code)) continue;
      if (moment_.heap.unrecorded != (kind == PartKind::malloc_unsplit) && kind <= PartKind::malloc_unsplit) continue;
      ledger.parts.push_back({kind, sums_[kind]});
    }
    // The RSS is the sum over the mappings, so nothing is left; only a damaged snapshot may say otherwise.
    if (rest) {
      ledger.parts.back().bytes += rest;
      ledger.notes.push_back(fmt::format("{} bytes of RSS are in no mapping of the snapshot: they are in other", rest));
    }
    if (unsplit_)
      ledger.notes.push_back(
          fmt::format("{} bytes of malloc's heaps are in other: blocks that the parent allocated before fork are not known, "
                      "so free memory cannot be told from theirs",
                      unsplit_));
    if (moment_.heap.process.in_use_bytes && !moment_.heap.process.resident_bytes)
      ledger.notes.emplace_back("of some of malloc's pages it is not known whether they are resident: they are in other");
    if (moment_.heap.unrecorded)
      ledger.notes.emplace_back(
          "the trace does not hold every block that lives, so malloc's heaps are one part; blocks that malloc mapped on their "
          "own may be in other");
    const bool other_allocator =
        !moment_.heap.unrecorded && !moment_.heap.process.in_use_bytes && moment_.heap.process.live_blocks;
    if (other_allocator)
      ledger.notes.emplace_back(
          "the allocator is not glibc's: malloc: live is what live blocks cover of resident pages, and the rest of the "
          "allocator's memory is in other");
    if (java_.jvm && !java_.heap_found)
      ledger.notes.emplace_back("a Java heap was not recognised (it is neither below 32 GiB nor as large): it is in other");
    return ledger;
  }

  const model::Moment& moment_;
  std::string_view trace_path_;
  std::vector<process::Mapping> mappings_;
  std::vector<MappingKind> kinds_;
  JavaRegions java_;
  Sums sums_;
  std::uint64_t unsplit_ = 0, anonymous_other_ = 0;
  std::uint64_t recorder_dirty_ = 0;
  bool dirty_known_ = false;
};

}  // namespace

std::uint64_t RssLedger::bytes(PartKind kind) const {
  for (const Part& part : parts)
    if (part.kind == kind) return part.bytes;
  return 0;
}

RssLedger rss_ledger(const model::Moment& moment, std::string_view trace_path) {
  if (!moment.rss_bytes) return {};
  return Builder(moment, trace_path).build();
}

}  // namespace heapspy::ledger
