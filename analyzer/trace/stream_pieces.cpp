#include "analyzer/trace/stream_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

namespace heapspy::trace {

namespace {

constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);
// A place in a stream beyond this is damage: 2^48 words are 2 PiB of events.
constexpr std::uint64_t kStreamLimit = 1ull << 48;
constexpr int kCountShift = 48;  // of ChunkHeader::records

std::uint64_t end_of(const StreamPiece& piece) { return piece.stream_at + piece.words; }

// True if the payload is what was written.
bool checksum_holds(const TraceFile& file, const StreamPiece& piece) {
  format::ChunkHeader header;
  if (!read_chunk_header(file, piece.file_offset, header)) return false;
  if (piece.packed) {
    if (header.payload_bytes > longest_packed(piece.skip + piece.words)) return false;
    std::string payload(header.payload_bytes, '\0');
    return file.read(piece.file_offset, payload.data(), payload.size()) == payload.size() &&
           format::checksum(payload.data(), payload.size()) == header.payload_checksum;
  }
  if (header.payload_bytes / kWordBytes != piece.words) return false;
  std::vector<std::uint64_t> words(piece.words);
  return file.read(piece.file_offset, words.data(), words.size() * kWordBytes) == words.size() * kWordBytes &&
         format::checksum(words.data(), words.size() * kWordBytes) == header.payload_checksum;
}

// How many words a packed chunk holds; 0 where that cannot be said, or where the file ends within it: half a payload is none.
std::uint64_t packed_words(const TraceFile& file, const FoundChunk& chunk) {
  char start[sizeof(format::PackedHeader)];
  format::PackedHeader header;
  if (chunk.cut || chunk.payload_bytes < sizeof start || file.read(chunk.payload_at, start, sizeof start) != sizeof start ||
      !read_packed_header({start, sizeof start}, header))
    return 0;
  return header.words;
}

// Ids are indices for others: none may be beyond what a file of this size can hold threads.
std::uint32_t highest_plausible_id(std::uint64_t file_bytes) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(file_bytes / kWordBytes + 64, 0x7FFFFFFF));
}

struct Joiner {
  const TraceFile& file;
  const format::FileHeader& header;
  std::vector<Damage>& damage;

  // Of two pieces that cover the same words one goes. A chunk is written before the ring's `appended` moves on, so a killed
  // process (or collector) can leave its last chunk in both: the chunk if it is whole, else the ring. A collector that is
  // late and the thread can each have written the same words into a chunk of their own.
  void remove_overlaps(ThreadStream& thread) const {
    std::vector<StreamPiece> kept;
    for (StreamPiece piece : thread.pieces) {
      if (!kept.empty() && kept.back().stream_at < end_of(piece) && piece.stream_at < end_of(kept.back())) {
        StreamPiece& before = kept.back();
        if (!before.in_ring && before.stream_at >= piece.stream_at && end_of(before) <= end_of(piece) &&
            !checksum_holds(file, before))
          kept.pop_back();
      }
      if (!kept.empty() && piece.stream_at < end_of(kept.back())) {
        const std::uint64_t doubled = end_of(kept.back()) - piece.stream_at;
        if (doubled >= piece.words) continue;
        piece.stream_at += doubled;
        piece.words -= doubled;
        if (piece.packed)
          piece.skip += static_cast<std::uint32_t>(doubled);
        else
          piece.file_offset += piece.in_ring ? doubled : doubled * kWordBytes;
      }
      kept.push_back(piece);
    }
    thread.pieces = std::move(kept);
    thread.pieces.shrink_to_fit();
  }

  void note_gap(const ThreadStream& thread, std::uint64_t offset, std::uint64_t words) const {
    // In ring mode only the newest events are kept: what is missing before them was not lost.
    if (header.mode == format::Mode::ring) return;
    damage.push_back({offset, fmt::format("thread {} lacks {} words{}", index(thread.id), words, stop_reason(header.stop))});
  }

  // `appended`: the place up to which words had left the ring when the trace ended.
  void find_gaps(ThreadStream& thread, std::uint64_t appended) const {
    std::uint64_t expected = 0, offset = 0;
    for (StreamPiece& piece : thread.pieces) {
      piece.gap = piece.stream_at > expected;
      if (!piece.in_ring) offset = piece.file_offset - sizeof(format::ChunkHeader);
      if (piece.gap) note_gap(thread, offset, piece.stream_at - expected);
      expected = end_of(piece);
    }
    if (appended > expected) note_gap(thread, offset, appended - expected);
  }
};

}  // namespace

const char* stop_reason(std::uint32_t stop) {
  switch (static_cast<format::Stop>(stop)) {
    case format::Stop::none: return "";
    case format::Stop::no_space: return ": the disk was full";
    case format::Stop::file_limit: return ": the file size limit of the process was reached";
    case format::Stop::unreachable: return ": the trace's path led nowhere any more";
    case format::Stop::no_descriptor: return ": the process had no file descriptor left";
    case format::Stop::io_error: return ": the file could not be written";
    case format::Stop::max_size: return ": HEAPSPY_MAX was reached";
    case format::Stop::sandbox: return ": the program entered a sandbox (seccomp)";
  }
  return ": the file could not be written";
}

Streams join_pieces(const TraceFile& file, const format::FileHeader& header, const std::vector<FoundChunk>& chunks,
                    StagingCopy& staging, std::vector<Damage>& damage) {
  Streams streams;
  const std::uint32_t highest = highest_plausible_id(file.size());
  std::uint32_t highest_in_chunks = 0;
  std::map<std::uint32_t, std::size_t> places;  // thread id → index into streams.threads
  auto stream = [&](std::uint32_t id, std::uint32_t tid) -> ThreadStream& {
    const auto [place, added] = places.emplace(id, streams.threads.size());
    if (added) {
      streams.threads.emplace_back();
      streams.threads.back().id = ThreadId{id};
      streams.threads.back().tid = tid;
    }
    return streams.threads[place->second];
  };

  for (const FoundChunk& chunk : chunks) {
    const bool packed = chunk.kind == format::ChunkKind::packed;
    if (chunk.kind != format::ChunkKind::events && !packed) continue;
    if (chunk.thread == 0 || chunk.thread > highest || chunk.stream_at >= kStreamLimit) {
      damage.push_back({chunk.payload_at - sizeof(format::ChunkHeader),
                        fmt::format("events of an impossible thread ({}), left out", chunk.thread)});
      continue;
    }
    highest_in_chunks = std::max(highest_in_chunks, chunk.thread);
    StreamPiece piece;
    piece.stream_at = chunk.stream_at;
    piece.words = packed ? packed_words(file, chunk) : chunk.payload_bytes / kWordBytes;
    piece.packed = packed;
    if (packed && !piece.words && !chunk.cut)
      damage.push_back({chunk.payload_at - sizeof(format::ChunkHeader),
                        fmt::format("packed words of thread {} are damaged, left out", chunk.thread)});
    piece.first_tick = chunk.first_tick;
    piece.file_offset = chunk.payload_at;
    if (!piece.words) continue;
    ThreadStream& thread = stream(chunk.thread, chunk.tid);
    thread.pieces.push_back(piece);
    if (chunk.records && !chunk.cut) {
      const std::uint64_t place = end_of(piece) + (chunk.records >> kCountShift);
      thread.counts.push_back({place, chunk.records & ((1ull << kCountShift) - 1)});
    }
  }

  // Slots have no checksum of their own.
  const std::uint32_t highest_in_slots = std::min(highest, std::max(header.threads, highest_in_chunks));
  std::map<std::uint32_t, std::uint64_t> appended;
  std::uint64_t lowest_filled = ~0ull;
  std::pair<std::uint32_t, std::uint64_t> oldest;  // thread and place at which the ring that was filled first ended
  for (RingCopy& ring : staging.rings) {
    if (ring.thread > highest_in_slots || ring.stream_at >= kStreamLimit) {
      damage.push_back(
          {0, fmt::format("a staging slot names an impossible thread or place (thread {}), left out", ring.thread)});
      continue;
    }
    ThreadStream& thread = stream(ring.thread, ring.tid);
    if (ring.filled && ring.filled < lowest_filled) {
      lowest_filled = ring.filled;
      oldest = {ring.thread, ring.stream_at + ring.words.size()};
    }
    appended[ring.thread] = std::max(appended[ring.thread], ring.stream_at);
    if (ring.counted.records && ring.counted.place <= ring.stream_at + ring.words.size()) thread.counts.push_back(ring.counted);
    StreamPiece piece;
    piece.stream_at = ring.stream_at;
    piece.words = ring.words.size();
    piece.first_tick = ring.first_tick;
    piece.file_offset = streams.ring_words.size();
    piece.in_ring = true;
    streams.ring_words.insert(streams.ring_words.end(), ring.words.begin(), ring.words.end());
    if (piece.words) thread.pieces.push_back(piece);
    ring = {};
  }
  for (const auto& [id, lost] : staging.lost_by_thread)
    if (const auto place = places.find(id); place != places.end()) streams.threads[place->second].lost_events += lost;

  std::sort(streams.threads.begin(), streams.threads.end(),
            [](const ThreadStream& left, const ThreadStream& right) { return left.id < right.id; });
  const Joiner joiner{file, header, damage};
  for (ThreadStream& thread : streams.threads) {
    // At the same place chunks come before the ring.
    std::stable_sort(thread.pieces.begin(), thread.pieces.end(), [](const StreamPiece& left, const StreamPiece& right) {
      return left.stream_at != right.stream_at ? left.stream_at < right.stream_at : left.in_ring < right.in_ring;
    });
    joiner.remove_overlaps(thread);
    if (header.mode == format::Mode::ring) thread.counts.clear();  // what is missing was not lost
    std::sort(thread.counts.begin(), thread.counts.end(),
              [](const StreamCount& left, const StreamCount& right) { return left.place < right.place; });
    const auto known = appended.find(index(thread.id));
    joiner.find_gaps(thread, known == appended.end() ? 0 : known->second);
    if (index(thread.id) != oldest.first) continue;
    for (const StreamPiece& piece : thread.pieces)
      if (piece.stream_at <= oldest.second) streams.oldest_filled = piece.first_tick;  // of the piece that follows, if any
  }
  return streams;
}

RingSpan ring_span(const Streams& streams, std::uint32_t threads) {
  RingSpan span;
  span.oldest = ~Tick{0};
  span.whole = streams.threads.size() >= threads;
  for (const ThreadStream& thread : streams.threads)
    for (const StreamPiece& piece : thread.pieces) {
      span.oldest = std::min(span.oldest, piece.first_tick);
      if (!piece.gap) continue;
      span.whole = false;
      span.from = std::max(span.from, piece.first_tick);
    }
  if (span.oldest == ~Tick{0}) span.oldest = 0;
  // Threads of which nothing is left had ended before the oldest ring that is left was filled.
  span.from = std::max(span.from, span.whole ? 0 : streams.oldest_filled);
  return span;
}

}  // namespace heapspy::trace
