#include "analyzer/process/memory_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

namespace heapspy::process {
namespace {

// Looks into the pagemap first: reading a page that was never touched would map one.
std::optional<bool> heap_stands_at(const LiveProcess& target, std::uint64_t address) {
  const auto resident = target.resident_pages(address, 1);
  if (resident && !resident->front()) return false;
  std::byte bytes[32];
  if (target.read_memory(address, bytes) != sizeof bytes) return std::nullopt;
  std::uint64_t words[4];
  std::memcpy(words, bytes, sizeof words);
  return plausible_heap_info(address, words);
}

}  // namespace

MemoryMap sum_by_kind(std::span<const Mapping> mappings, const Classification& classification) {
  std::array<KindTotal, kMappingKinds> totals{};
  MemoryMap map;
  for (std::size_t i = 0; i < mappings.size(); i++) {
    const Mapping& m = mappings[i];
    KindTotal& total = totals[static_cast<std::size_t>(classification.kinds[i])];
    total.kind = classification.kinds[i];
    total.executable = m.execute;
    total.count++;
    total.size_bytes += m.size_bytes();
    total.rss_bytes += m.rss_bytes;
    total.swap_bytes += m.swap_bytes;
    map.size_bytes += m.size_bytes();
    map.rss_bytes += m.rss_bytes;
    map.swap_bytes += m.swap_bytes;
    map.executable_mappings += m.execute;
  }
  map.mappings = mappings.size();
  map.regions_64mib = classification.regions.size();
  for (const KindTotal& total : totals)
    if (total.count != 0) map.kinds.push_back(total);
  std::stable_sort(map.kinds.begin(), map.kinds.end(), [](const KindTotal& a, const KindTotal& b) {
    return a.rss_bytes != b.rss_bytes ? a.rss_bytes > b.rss_bytes : a.size_bytes > b.size_bytes;
  });
  return map;
}

MemoryMap scan_memory_map(const LiveProcess& target) {
  const auto begin = std::chrono::steady_clock::now();
  const MappingList list = parse_mappings(target.text("smaps"));
  if (list.mappings.empty()) target.expect_memory();
  bool proven = true;
  Evidence evidence;
  evidence.stack_pointers = target.stack_pointers();
  evidence.heap_at = [&](std::uint64_t address) {
    const auto proof = heap_stands_at(target, address);
    proven = proven && proof.has_value();
    return proof;
  };
  MemoryMap map = sum_by_kind(list.mappings, classify(list.mappings, evidence));
  map.regions_proven = proven;
  map.page_table_bytes = target.status().page_table_bytes;
  map.scan_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return map;
}

}  // namespace heapspy::process
