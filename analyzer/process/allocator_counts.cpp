#include "analyzer/process/allocator_counts.h"

#include "analyzer/process/exported_symbol.h"

namespace heapspy::process {
namespace {

template <typename Value>
std::optional<Value> variable(const LiveProcess& process, std::uint64_t base, std::string_view name) {
  const auto address = exported_variable(process, base, name);
  Value value{};
  if (!address || process.read_memory(*address, std::as_writable_bytes(std::span(&value, 1))) != sizeof value)
    return std::nullopt;
  return value;
}

}  // namespace

std::optional<AllocatorCounts> allocator_counts(const LiveProcess& process, std::span<const Mapping> mappings,
                                                const std::string& allocator) {
  if (allocator != "tcmalloc") return std::nullopt;
  for (const Mapping& each : mappings) {
    const std::string_view name = std::string_view(each.name).substr(each.name.rfind('/') + 1);
    if (each.file_offset != 0 || !name.starts_with("libtcmalloc")) continue;
    const auto taken = variable<std::uint64_t>(process, each.start, "TCMalloc_SystemTaken");
    if (!taken) return std::nullopt;
    // tcmalloc::ThreadCache::thread_heap_count_
    return AllocatorCounts{*taken,
                           variable<std::uint32_t>(process, each.start, "_ZN8tcmalloc11ThreadCache18thread_heap_count_E")};
  }
  return std::nullopt;
}

}  // namespace heapspy::process
