#include "analyzer/trace/packed_counters.h"

#include <zstd.h>

#include <cstring>
#include <new>

namespace heapspy::trace {

using format::PackedCountersHeader;
using format::ThreadCounters;

namespace {
constexpr int kLevel = 6;
}

std::string pack_counters(std::span<const ThreadCounters> counters) {
  std::string payload(sizeof(PackedCountersHeader) + ZSTD_compressBound(counters.size_bytes()), '\0');
  char* frame = payload.data() + sizeof(PackedCountersHeader);
  const std::size_t bytes =
      ZSTD_compress(frame, payload.size() - sizeof(PackedCountersHeader), counters.data(), counters.size_bytes(), kLevel);
  if (ZSTD_isError(bytes)) throw std::bad_alloc();  // all that can fail here
  const PackedCountersHeader header{static_cast<std::uint32_t>(counters.size()), static_cast<std::uint32_t>(bytes)};
  std::memcpy(payload.data(), &header, sizeof header);
  payload.resize(format::align_up(sizeof header + bytes, 8));
  return payload;
}

bool unpack_counters(std::string_view payload, std::vector<ThreadCounters>& to) {
  PackedCountersHeader header;
  if (payload.size() < sizeof header) return false;
  std::memcpy(&header, payload.data(), sizeof header);
  payload.remove_prefix(sizeof header);
  if (header.frame_bytes > payload.size() || header.counters > format::kMostPackedCounters) return false;
  std::vector<ThreadCounters> counters(header.counters);
  const std::size_t bytes = counters.size() * sizeof counters[0];
  if (ZSTD_decompress(counters.data(), bytes, payload.data(), header.frame_bytes) != bytes) return false;
  to.insert(to.end(), counters.begin(), counters.end());
  return true;
}

}  // namespace heapspy::trace
