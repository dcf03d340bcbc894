#include "analyzer/trace/stream_progress.h"

#include <algorithm>

#include "analyzer/trace/glance.h"
#include "analyzer/trace/staging_rings.h"

namespace heapspy::trace {

StreamProgress::StreamProgress(const std::string& path) : file_(path), from_(glance(file_).header_bytes) {}

format::FileHeader StreamProgress::header() const { return glance(file_); }

const std::map<std::uint32_t, StreamProgress::Thread>& StreamProgress::look() {
  // What is being written now may stand there as zeros: the last chunks are looked at again.
  const ChunkScan scan = scan_chunks(file_, from_, header().append_at);
  for (const FoundChunk& chunk : scan.chunks) {
    if (chunk.kind == format::ChunkKind::staging && std::none_of(staging_.begin(), staging_.end(), [&](const FoundChunk& each) {
          return each.payload_at == chunk.payload_at;
        }))
      staging_.push_back(chunk);
    if (chunk.kind != format::ChunkKind::events) continue;
    Thread& thread = threads_[chunk.thread];
    thread.tid = chunk.tid;
    thread.words = std::max(thread.words, chunk.stream_at + chunk.payload_bytes / 8);
    from_ = chunk.payload_at - sizeof(format::ChunkHeader);
  }
  StagingCopy copy;
  std::vector<Damage> damage;
  for (const FoundChunk& chunk : staging_) copy_staging(file_, chunk, true, copy, damage);
  for (const RingCopy& ring : copy.rings) {
    Thread& thread = threads_[ring.thread];
    thread.tid = ring.tid;
    thread.words = std::max(thread.words, ring.stream_at + ring.words.size());
  }
  lost_events_ = copy.lost_events;
  return threads_;
}

}  // namespace heapspy::trace
