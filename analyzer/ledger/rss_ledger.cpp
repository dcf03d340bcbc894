#include "analyzer/ledger/rss_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "analyzer/ledger/java_regions.h"
#include "analyzer/ledger/part_details.h"
#include "analyzer/ledger/same_mapping.h"
#include "analyzer/process/mapping_kinds.h"

namespace heapspy::ledger {
namespace {

std::string mib_text(std::uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

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

// Whole mappings are counted as these: malloc's parts are one.
enum class GroupKind : std::uint8_t {
  malloc,
  java_heap,
  java_code,
  java_collector,
  thread_stacks,
  files,
  shared_memory,
  heapspy,
  other
};
constexpr std::size_t kGroups = static_cast<std::size_t>(GroupKind::other) + 1;

GroupKind group_of(PartKind part) {
  switch (part) {
    case PartKind::java_heap: return GroupKind::java_heap;
    case PartKind::java_code: return GroupKind::java_code;
    case PartKind::java_collector: return GroupKind::java_collector;
    case PartKind::thread_stacks: return GroupKind::thread_stacks;
    case PartKind::files: return GroupKind::files;
    case PartKind::shared_memory: return GroupKind::shared_memory;
    case PartKind::heapspy: return GroupKind::heapspy;
    case PartKind::other: return GroupKind::other;
    default: return GroupKind::malloc;
  }
}

std::string_view name_of(GroupKind group) {
  if (group == GroupKind::malloc) return "malloc";
  return name(static_cast<PartKind>(static_cast<std::size_t>(PartKind::java_heap) + static_cast<std::size_t>(group) - 1));
}

std::string_view file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos || slash + 1 == path.size() ? path : path.substr(slash + 1);
}

class Builder {
 public:
  Builder(const model::Moment& moment, std::string_view trace_path, bool details)
      : moment_(moment), trace_path_(trace_path), with_details_(details) {
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
      if (with_details_) {
        details_.add(kind, detail_of(i, kind), rest);
        add_to_group(i, rest < mappings_[i].rss_bytes ? GroupKind::malloc : group_of(kind));
      }
      dirty_known_ = dirty_known_ || mappings_[i].private_dirty_bytes;
      if (kind == PartKind::heapspy) recorder_dirty_ += mappings_[i].private_dirty_bytes;
      if (kind == PartKind::other && kinds_[i] == MappingKind::anonymous) anonymous_other_ += rest;
    }
    // The recorder's private memory is anonymous like any other; its amount is known, not its place.
    const std::uint64_t own = sums_.take(PartKind::other, std::min(anonymous_other_, moment_.recorder_bytes));
    sums_.add(PartKind::heapspy, own);
    details_.take(PartKind::other, kAnonymous, own);
    details_.add(PartKind::heapspy, "its private memory", own);
    Group& other = groups_[static_cast<std::size_t>(GroupKind::other)];
    Group& recorders = groups_[static_cast<std::size_t>(GroupKind::heapspy)];
    const std::uint64_t moved = std::min(own, other.bytes);
    other.bytes -= moved;
    recorders.bytes += moved;
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
    const std::uint64_t live = give(PartKind::malloc_live, parts.live);
    const std::uint64_t overhead = give(PartKind::malloc_overhead, parts.overhead);
    give(PartKind::malloc_pinned, parts.pinned);
    give(PartKind::malloc_trimmable, parts.trimmable);
    const std::uint64_t cached = give(PartKind::malloc_cached, parts.cached);
    give(PartKind::malloc_undivided, share.unsplit_bytes);
    if (with_details_) {
      pieces(PartKind::malloc_live, live, {{"in mappings of their own", parts.mapped_live}}, "in heaps");
      pieces(PartKind::malloc_overhead, overhead, {{"of mappings of their own", parts.mapped_overhead}}, "in heaps");
      pieces(PartKind::malloc_cached, cached,
             {{"tops of secondary arenas", parts.cached_tops}, {"thread caches", parts.cached_thread_caches}},
             "headers and ends of heaps");
    }
    return rss - rest;
  }

  struct Piece {
    std::string_view name;
    std::uint64_t bytes;
  };
  void pieces(PartKind part, std::uint64_t bytes, std::initializer_list<Piece> named, std::string_view rest) {
    for (const Piece& piece : named) {
      const std::uint64_t some = std::min(piece.bytes, bytes);
      details_.add(part, piece.name, some);
      bytes -= some;
    }
    details_.add(part, rest, bytes);
  }

  void add_to_group(std::size_t i, GroupKind kind) {
    Group& group = groups_[static_cast<std::size_t>(kind)];
    const process::Mapping& m = mappings_[i];
    if (m.rss_bytes || m.swap_bytes) group.mappings++;
    group.bytes += m.rss_bytes;
    group.swap_bytes += m.swap_bytes;
    group.huge_bytes += m.anon_huge_bytes;
  }

  static constexpr std::string_view kAnonymous = "memory without a name";

  // What a mapping is called within its part.
  std::string_view detail_of(std::size_t i, PartKind kind) const {
    const process::Mapping& m = mappings_[i];
    switch (kind) {
      case PartKind::java_heap: return m.name.empty() ? "heap" : file_name(m.name);
      case PartKind::java_code:
        return java_.regions[i] == JavaRegion::code      ? "code cache"
               : java_.regions[i] == JavaRegion::archive ? "class archive"
                                                         : "metaspace and class space";
      case PartKind::thread_stacks: return kinds_[i] == MappingKind::main_stack ? "main thread" : "other threads";
      case PartKind::heapspy:
        return kinds_[i] == MappingKind::heapspy_trace || (!trace_path_.empty() && m.name.starts_with(trace_path_))
                   ? "its trace, mapped"
                   : "its library";
      case PartKind::files: return file_name(m.name.empty() && i > 0 ? mappings_[i - 1].name : m.name);
      case PartKind::shared_memory: return m.name.empty() ? std::string_view("without a name") : m.name;
      default: break;
    }
    if (!m.name.empty()) return m.name;
    if (kinds_[i] == MappingKind::anonymous) return kAnonymous;
    return process::name(kinds_[i]);
  }

  PartKind part_of(std::size_t i) const {
    const process::Mapping& m = mappings_[i];
    if (is_recorders_library(m)) return PartKind::heapspy;
    if (!trace_path_.empty() && m.name.starts_with(trace_path_)) return PartKind::heapspy;
    if (java_.regions[i] == JavaRegion::heap) return PartKind::java_heap;
    if (java_.regions[i] == JavaRegion::collector) return PartKind::java_collector;
    if (java_.regions[i] != JavaRegion::none) return PartKind::java_code;
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
      if (!java_.jvm && kind >= PartKind::java_heap && kind <= PartKind::java_collector) continue;
      if (moment_.heap.unrecorded != (kind == PartKind::malloc_unsplit) && kind <= PartKind::malloc_unsplit) continue;
      if (kind == PartKind::malloc_undivided && !sums_[kind]) continue;
      ledger.parts.push_back({kind, sums_[kind]});
      if (with_details_) ledger.parts.back().details = details_.of(kind, sums_[kind], kDetails);
    }
    for (std::size_t g = 0; g < kGroups; g++) {
      Group& group = groups_[g];
      if (!group.bytes && !group.swap_bytes) continue;
      group.name = name_of(static_cast<GroupKind>(g));
      ledger.swap_bytes += group.swap_bytes;
      ledger.huge_bytes += group.huge_bytes;
      ledger.groups.push_back(group);
    }
    // The RSS is the sum over the mappings, so nothing is left; only a damaged snapshot may say otherwise.
    if (rest) {
      ledger.parts.back().bytes += rest;
      if (!ledger.parts.back().details.empty()) ledger.parts.back().details.push_back({"in no mapping", rest});
      ledger.notes.push_back(fmt::format("{} of RSS are in no mapping of the snapshot: they are in other", mib_text(rest)));
    }
    if (const std::uint64_t undivided = sums_[PartKind::malloc_undivided])
      ledger.notes.push_back(
          fmt::format("{} of malloc's heaps are not told apart: blocks that the parent allocated before fork are not "
                      "known, so free memory cannot be told from theirs",
                      mib_text(undivided)));
    if (moment_.heap.process.in_use_bytes && !moment_.heap.process.resident_bytes)
      ledger.notes.emplace_back("of some of malloc's pages it is not known whether they are resident: they are in other");
    if (moment_.heap.unrecorded)
      ledger.notes.emplace_back(
          "the trace does not tell every block and heap, so malloc's heaps are one part; blocks that malloc mapped on their "
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
  bool with_details_;
  PartDetails details_;
  std::array<Group, kGroups> groups_;
  std::uint64_t anonymous_other_ = 0;
  std::uint64_t recorder_dirty_ = 0;
  bool dirty_known_ = false;
};

}  // namespace

std::uint64_t RssLedger::bytes(PartKind kind) const {
  for (const Part& part : parts)
    if (part.kind == kind) return part.bytes;
  return 0;
}

RssLedger rss_ledger(const model::Moment& moment, std::string_view trace_path, bool details) {
  if (!moment.rss_bytes) return {};
  return Builder(moment, trace_path, details).build();
}

}  // namespace heapspy::ledger
