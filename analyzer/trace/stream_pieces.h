// Puts each thread's chunks and ring together into one stream: by position, without overlaps, with its gaps named.
#pragma once
#include <cstdint>
#include <vector>

#include "analyzer/trace/chunk_scan.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/staging_rings.h"
#include "analyzer/trace/trace_file.h"

namespace heapspy::trace {

struct Streams {
  std::vector<ThreadStream> threads;  // by id; pieces in_ring have the index into ring_words as file_offset
  std::vector<std::uint64_t> ring_words;
  Tick oldest_filled = 0;  // mode ring: about when the ring that was filled first, of those that are left, was
};

// Frees the rings' own copies. Adds to `damage`.
Streams join_pieces(const TraceFile&, const format::FileHeader&, const std::vector<FoundChunk>&, StagingCopy&,
                    std::vector<Damage>& damage);

// What is there of the streams of `threads` threads, of which the oldest pieces were overwritten.
RingSpan ring_span(const Streams&, std::uint32_t threads);

// Why words are missing, as far as the header says; for example ": the disk was full".
const char* stop_reason(std::uint32_t stop);

}  // namespace heapspy::trace
