// A `snapshot` chunk's payload (format/layout.h) as a Snapshot. Total: what is cut or impossible is left out.
#pragma once
#include <optional>
#include <string_view>

#include "analyzer/trace/snapshot.h"

namespace heapspy::trace {

Snapshot decode_snapshot(std::string_view payload, std::uint64_t page_bytes);

// The first item alone; `payload` may be just its beginning.
std::optional<format::SnapshotInfo> decode_snapshot_info(std::string_view payload);

}  // namespace heapspy::trace
