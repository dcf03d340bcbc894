// Walks the chunks of a trace (format/layout.h) by their headers and finds the next one after damage.
#pragma once
#include <cstdint>
#include <vector>

#include "analyzer/trace/reader.h"
#include "analyzer/trace/trace_file.h"
#include "heapspy/format/layout.h"

namespace heapspy::trace {

// A chunk whose header is right. `payload_bytes` is what the file really holds of it, at most what the header says.
struct FoundChunk {
  std::uint64_t payload_at = 0;  // file offset
  std::uint64_t payload_bytes = 0;
  std::uint64_t stream_at = 0;
  std::uint64_t records = 0;  // as in the header
  Tick first_tick = 0;
  std::uint32_t thread = 0;
  std::uint32_t tid = 0;
  format::ChunkKind kind = format::ChunkKind::process;
  bool cut = false;  // the file ends within it
};

struct ChunkScan {
  std::vector<FoundChunk> chunks;  // in the order of the file
  std::vector<Damage> damage;      // one entry for each range that could not be understood
};

// Reads each header once and no payload. Zeros between chunks are not damage: space that was reserved and not yet
// written. Trusts no length: every one is held against the size of the file.
// Chunks that begin at or after `limit` are not looked for: whoever reads a trace that is being written stops where it
// ended a moment ago, or chunks that are being written would show up as gaps before those that were written meanwhile.
ChunkScan scan_chunks(const TraceFile&, std::uint64_t from, std::uint64_t limit);

// The header of the chunk whose payload starts at `payload_at`; false where none is.
bool read_chunk_header(const TraceFile&, std::uint64_t payload_at, format::ChunkHeader& to);

}  // namespace heapspy::trace
