#include "analyzer/model/heap_facts.h"

#include <charconv>
#include <string_view>

namespace heapspy::model {
namespace {

std::optional<std::uint64_t> number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  } else if (text.size() > 1 && text.front() == '0') {
    base = 8;  // as strtoul does
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// "2.36" → 36; 0 for anything else.
std::uint32_t minor_of(std::string_view version) {
  if (!version.starts_with("2.")) return 0;
  version.remove_prefix(2);
  std::uint32_t minor = 0;
  std::from_chars(version.data(), version.data() + version.size(), minor);
  return minor;
}

void apply_setting(HeapFacts& facts, std::string_view setting, std::string_view text) {
  const std::optional<std::uint64_t> value = number(text);
  if (!value) return;
  if (setting == "glibc.malloc.tcache_count" && *value <= 65535) facts.cache_depth = static_cast<std::uint32_t>(*value);
  if (setting == "glibc.malloc.tcache_max" && *value < facts.cache_limit) facts.cache_limit = *value;
  if (setting == "glibc.malloc.mmap_threshold") facts.mmap_threshold = *value;
  // Larger pages make all heaps larger, and the main one a mapping (malloc/arena.c, heap_max_size; malloc/malloc.c, sysmalloc).
  if (setting == "glibc.malloc.hugetlb" && *value >= 2) facts.unrecorded = true;
  for (const char* ends :
       {"glibc.malloc.mmap_threshold", "glibc.malloc.trim_threshold", "glibc.malloc.top_pad", "glibc.malloc.mmap_max"})
    if (setting == ends) facts.dynamic_threshold = false;
}

}  // namespace

HeapFacts heap_facts(const trace::ProcessInfo& process) {
  HeapFacts facts;
  facts.glibc = process.allocator == "glibc";
  facts.glibc_minor = minor_of(process.glibc_version.empty() ? process.allocator_version : process.glibc_version);
  facts.forked = process.forked;
  if (!facts.glibc || (facts.glibc_minor && facts.glibc_minor < 26))
    facts.cache_depth = 0;
  else if (facts.glibc_minor >= 43)
    facts.cache_depth = 16;
  if (!facts.glibc) return facts;
  for (const auto& [name, text] : process.environment) {
    if (name == "MALLOC_MMAP_THRESHOLD_") apply_setting(facts, "glibc.malloc.mmap_threshold", text);
    if (name == "MALLOC_TRIM_THRESHOLD_") apply_setting(facts, "glibc.malloc.trim_threshold", text);
    if (name == "MALLOC_TOP_PAD_") apply_setting(facts, "glibc.malloc.top_pad", text);
    if (name == "MALLOC_MMAP_MAX_") apply_setting(facts, "glibc.malloc.mmap_max", text);
    if (name != "GLIBC_TUNABLES") continue;
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t colon = rest.find(':');
      const std::string_view one = rest.substr(0, colon);
      rest = colon == std::string_view::npos ? std::string_view{} : rest.substr(colon + 1);
      if (const std::size_t equals = one.find('='); equals != std::string_view::npos)
        apply_setting(facts, one.substr(0, equals), one.substr(equals + 1));
    }
  }
  return facts;
}

}  // namespace heapspy::model
