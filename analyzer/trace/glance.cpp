#include "analyzer/trace/glance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "analyzer/trace/reader.h"

namespace heapspy::trace {

format::FileHeader glance(const TraceFile& file) {
  format::FileHeader header;
  char page[format::kPageBytes];
  const std::uint64_t got = file.read(0, page, sizeof page);
  if (got == 0) throw Unreadable(fmt::format("{}: empty, not a heapspy trace", file.path()));
  const std::uint64_t compared = std::min<std::uint64_t>(got, sizeof format::kMagic);
  if (std::memcmp(page, format::kMagic, compared) != 0) throw Unreadable(fmt::format("{}: not a heapspy trace", file.path()));
  if (got < sizeof page)
    throw Unreadable(fmt::format("{}: {} bytes: shorter than a trace's header ({} bytes)", file.path(), got, sizeof page));
  std::memcpy(&header, page, sizeof header);
  if (header.version > format::kVersion)
    throw Unreadable(fmt::format("{}: format version {}; this heapspy reads versions up to {}: use a newer heapspy",
                                 file.path(), header.version, format::kVersion));
  if (header.version == 0) throw Unreadable(fmt::format("{}: not a heapspy trace: its header names no version", file.path()));
  return header;
}

format::FileHeader glance(const std::string& path) { return glance(TraceFile(path)); }

}  // namespace heapspy::trace
