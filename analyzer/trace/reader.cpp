#include "analyzer/trace/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <unordered_set>

#include "analyzer/trace/chunk_scan.h"
#include "analyzer/trace/glance.h"
#include "analyzer/trace/packed_counters.h"
#include "analyzer/trace/process_decode.h"
#include "analyzer/trace/snapshot_decode.h"
#include "analyzer/trace/stack_table.h"
#include "analyzer/trace/staging_rings.h"
#include "analyzer/trace/stream_pieces.h"
#include "analyzer/trace/trace_file.h"

namespace heapspy::trace {

namespace {

constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kEndless = ~0ull;
constexpr int kTries = 3;  // to see a growing file at a moment when no chunk is half written
constexpr std::uint64_t kLongestMark = 4096;
constexpr std::uint64_t kLongestHole = 2;  // as in a ring: words that were claimed and not written

struct SnapshotPlace {
  std::uint64_t payload_at = 0;
  std::uint64_t payload_bytes = 0;
  format::SnapshotInfo info = {};
};

std::string read_payload(const TraceFile& file, std::uint64_t at, std::uint64_t bytes) {
  std::string payload(bytes, '\0');
  payload.resize(file.read(at, payload.data(), payload.size()));
  return payload;
}

// The end of the file as reserved at this moment.
std::uint64_t reserved_now(const TraceFile& file) {
  std::uint64_t append_at = 0;
  file.read(offsetof(format::FileHeader, append_at), &append_at, sizeof append_at);
  return append_at;
}

// Replaces what cannot be by what is most likely. Nothing after this trusts the header blindly all the same.
void mend_header(format::FileHeader& header, std::uint64_t file_bytes, std::vector<Damage>& damage) {
  auto note = [&](std::size_t offset, const char* what) {
    damage.push_back({offset, fmt::format("the header's {} is damaged", what)});
  };
  if (header.header_bytes < sizeof header || header.header_bytes % format::kChunkAlignment ||
      header.header_bytes > file_bytes) {
    note(offsetof(format::FileHeader, header_bytes), "length");
    header.header_bytes = format::kPageBytes;
  }
  if (header.mode < format::Mode::full || header.mode > format::Mode::count) {
    note(offsetof(format::FileHeader, mode), "mode");
    header.mode = format::Mode::full;
  }
  if (header.clock != format::Clock::stamp && header.clock != format::Clock::event) {
    note(offsetof(format::FileHeader, clock), "clock");
    header.clock = format::Clock::stamp;
  }
  if (header.tick_kind != format::TickKind::tsc4 && header.tick_kind != format::TickKind::nanosecond) {
    note(offsetof(format::FileHeader, tick_kind), "unit of time");
    header.tick_kind = format::TickKind::tsc4;
  }
  if (header.end > static_cast<std::uint32_t>(format::End::exec)) {
    note(offsetof(format::FileHeader, end), "end");
    header.end = static_cast<std::uint32_t>(format::End::running);
  }
  if (header.machine_page_bytes < 4096 || header.machine_page_bytes > (1u << 20) ||
      header.machine_page_bytes & (header.machine_page_bytes - 1)) {
    note(offsetof(format::FileHeader, machine_page_bytes), "page size");
    header.machine_page_bytes = 4096;
  }
}

// In a chunk a word that was claimed and not written still has the lap bit of the lap before, so it stands out from its
// neighbours. Such words become 0; then all lap bits go. Returns how many there were.
std::uint64_t clear_lap_bits(std::uint64_t* words, std::size_t count) {
  std::uint64_t changes = 0;
  for (std::size_t i = 1; i < count; i++) changes += (words[i] ^ words[i - 1]) >> 63;
  std::uint64_t holes = 0;
  if (changes >= 2)  // one change is where a lap ends
    for (std::size_t i = 1; i < count; i++) {
      if (words[i] >> 63 == words[i - 1] >> 63) continue;
      std::size_t end = i + 1;
      while (end < count && end - i < kLongestHole && words[end] >> 63 == words[i] >> 63) end++;
      if (end >= count || words[end] >> 63 != words[i - 1] >> 63) continue;
      for (; i < end; i++, holes++) words[i] = 0;
    }
  for (std::size_t i = 0; i < count; i++) words[i] &= ~format::kLapBit;
  return holes;
}

}  // namespace

struct Reader::State {
  explicit State(const std::string& path) : file(path) {}

  TraceFile file;
  format::FileHeader header = {};
  std::uint64_t size_bytes = 0;
  Clock clock;
  ProcessInfo process;
  Streams streams;
  std::uint64_t lost_events = 0;
  std::vector<SnapshotPlace> snapshots;
  std::vector<Mark> marks;
  std::optional<RingSpan> ring;
  std::vector<format::ThreadCounters> counters;
  std::vector<FoundChunk> stack_chunks;
  // Both grow in const member functions: reading words is when damage in them is found.
  mutable std::vector<Damage> damage;
  mutable std::unordered_set<std::uint64_t> noted;  // file offsets of chunks whose words were found damaged
  mutable std::set<std::pair<ThreadId, std::uint64_t>> miscounts;
  mutable std::uint64_t missing_records = 0;
  mutable WordUnpacker unpacker;
  mutable std::unique_ptr<StackTable> stacks;

  void note_once(std::uint64_t offset, std::string reason) const {
    if (noted.insert(offset).second) damage.push_back({offset, std::move(reason)});
  }

  void read_packed(const StreamPiece& piece, std::vector<std::uint64_t>& to, std::vector<Sighting>* sightings) const {
    to.clear();
    format::ChunkHeader stored;
    const std::uint64_t at = piece.file_offset - sizeof stored;
    const std::uint64_t words = piece.skip + piece.words;
    bool good = read_chunk_header(file, piece.file_offset, stored) && stored.payload_bytes <= longest_packed(words);
    if (good) {
      const std::string payload = read_payload(file, piece.file_offset, stored.payload_bytes);
      good = payload.size() == stored.payload_bytes && payload.size() % kWordBytes == 0 &&
             format::checksum(payload.data(), payload.size()) == stored.payload_checksum &&
             unpacker.unpack(payload, stored.stream_at, to, sightings) && to.size() == words;
    }
    if (!good) {
      to.clear();
      if (sightings) sightings->clear();
      return note_once(at, fmt::format("packed words of a thread are damaged; {} words are lost", piece.words));
    }
    to.erase(to.begin(), to.begin() + piece.skip);
    if (const std::uint64_t holes = unpacker.holes())
      note_once(piece.file_offset, fmt::format("{} of thread {} claimed and never written",
                                               holes == 1 ? "a word" : fmt::format("{} words", holes), stored.thread));
  }

  void find_snapshots(const std::vector<FoundChunk>& chunks) {
    for (const FoundChunk& chunk : chunks) {
      if (chunk.kind != format::ChunkKind::snapshot) continue;
      const std::uint64_t at = chunk.payload_at - sizeof(format::ChunkHeader);
      format::ChunkHeader stored;
      const std::string payload = read_payload(file, chunk.payload_at, chunk.payload_bytes);
      const auto info = decode_snapshot_info(payload);
      if (!info || chunk.cut || payload.size() % kWordBytes || !read_chunk_header(file, chunk.payload_at, stored) ||
          format::checksum(payload.data(), payload.size()) != stored.payload_checksum) {
        // A ledger made from wrong figures would look exact: better none from this moment.
        damage.push_back({at, "a snapshot is damaged, left out"});
        continue;
      }
      snapshots.push_back({chunk.payload_at, chunk.payload_bytes, *info});
    }
    std::stable_sort(snapshots.begin(), snapshots.end(), [](const SnapshotPlace& left, const SnapshotPlace& right) {
      return left.info.begin_tick < right.info.begin_tick;
    });
  }

  void read_counters(std::uint64_t at, std::uint64_t slots, std::uint64_t slot_bytes) {
    for (std::uint64_t i = 0; i < slots; i++) {
      format::ThreadCounters thread;
      if (file.read(at + i * slot_bytes, &thread, sizeof thread) == sizeof thread && thread.thread) counters.push_back(thread);
    }
  }

  // Mode full: those of the first threads are in the first staging segment.
  void find_first_counters(const FoundChunk& staging) {
    format::StagingHeader segment{};
    if (file.read(staging.payload_at, &segment, sizeof segment) != sizeof segment) return;
    const std::uint64_t bytes = std::uint64_t{segment.counters} * sizeof(format::ThreadCounters);
    if (!segment.counters || segment.counters > format::kPageBytes || segment.counters_at + bytes > format::kPageBytes) return;
    read_counters(staging.payload_at - sizeof(format::ChunkHeader) + segment.counters_at, segment.counters,
                  sizeof(format::ThreadCounters));
  }

  void find_packed_counters(const FoundChunk& chunk) {
    const std::string payload = read_payload(file, chunk.payload_at, chunk.payload_bytes);
    format::ChunkHeader stored;
    if (chunk.cut || payload.size() % kWordBytes || !read_chunk_header(file, chunk.payload_at, stored) ||
        format::checksum(payload.data(), payload.size()) != stored.payload_checksum || !unpack_counters(payload, counters))
      damage.push_back({chunk.payload_at - sizeof stored, "packed counters of threads are damaged, left out"});
  }

  // Never sealed, as staging segments: each number is as right as it was when it was read.
  void find_counters(const std::vector<FoundChunk>& chunks) {
    for (const FoundChunk& chunk : chunks) {
      if (chunk.kind == format::ChunkKind::staging) find_first_counters(chunk);
      if (chunk.kind == format::ChunkKind::packed_counters) find_packed_counters(chunk);
      if (chunk.kind != format::ChunkKind::counters) continue;
      format::CountersHeader segment{};
      const std::uint64_t room = chunk.payload_bytes > sizeof segment ? chunk.payload_bytes - sizeof segment : 0;
      const bool read = file.read(chunk.payload_at, &segment, sizeof segment) == sizeof segment;
      const bool known = read && segment.slot_bytes >= sizeof(format::ThreadCounters) && segment.slot_bytes % kWordBytes == 0;
      if (!known || segment.slots > room / segment.slot_bytes)
        damage.push_back({chunk.payload_at - sizeof(format::ChunkHeader), "a segment of counters is damaged"});
      const std::uint64_t slots = known ? std::min<std::uint64_t>(segment.slots, room / segment.slot_bytes) : 0;
      read_counters(chunk.payload_at + sizeof segment, slots, segment.slot_bytes);
    }
    std::stable_sort(counters.begin(), counters.end(),
                     [](const auto& left, const auto& right) { return left.thread < right.thread; });
  }

  // A mark chunk holds at most the text of format::Control.
  void find_marks(const std::vector<FoundChunk>& chunks) {
    for (const FoundChunk& chunk : chunks) {
      if (chunk.kind != format::ChunkKind::mark) continue;
      const std::string payload = read_payload(file, chunk.payload_at, std::min(chunk.payload_bytes, kLongestMark));
      format::ChunkHeader stored;
      if (chunk.cut || payload.size() != chunk.payload_bytes || payload.size() % kWordBytes ||
          !read_chunk_header(file, chunk.payload_at, stored) ||
          format::checksum(payload.data(), payload.size()) != stored.payload_checksum)
        damage.push_back({chunk.payload_at - sizeof stored, "a mark is damaged, left out"});
      else
        marks.push_back({chunk.first_tick, ThreadId::none, payload.c_str()});
    }
  }

  void find_process(const std::vector<FoundChunk>& chunks) {
    std::string payload;
    bool found = false;
    for (const FoundChunk& chunk : chunks) {
      if (chunk.kind != format::ChunkKind::process || found) continue;
      found = true;
      payload = read_payload(file, chunk.payload_at, chunk.payload_bytes);
      format::ChunkHeader stored;
      if (chunk.cut || payload.size() % kWordBytes || !read_chunk_header(file, chunk.payload_at, stored) ||
          format::checksum(payload.data(), payload.size()) != stored.payload_checksum)
        damage.push_back({chunk.payload_at - sizeof stored, "the description of the process is damaged"});
    }
    process = decode_process(header, payload);
  }

  void note_stop() {
    if (header.stop == static_cast<std::uint32_t>(format::Stop::none)) return;
    std::string reason = "recording stopped";
    reason += stop_reason(header.stop);
    if (header.stop_errno) reason += fmt::format(" ({})", std::strerror(static_cast<int>(header.stop_errno)));
    if (header.failed_appends) reason += fmt::format("; {} appends failed", header.failed_appends);
    damage.push_back({offsetof(format::FileHeader, stop), std::move(reason)});
  }
};

Reader::Reader(const std::string& path) : state_(std::make_unique<State>(path)) {
  State& s = *state_;
  s.header = glance(s.file);
  mend_header(s.header, s.file.size(), s.damage);
  s.clock = Clock(s.header);
  const bool may_run = s.header.end == static_cast<std::uint32_t>(format::End::running);
  const bool running = may_run && still_runs(s.header, s.file);

  auto scan_now = [&] { return scan_chunks(s.file, s.header.header_bytes, running ? reserved_now(s.file) : kEndless); };
  ChunkScan scan = scan_now();
  StagingCopy staging;
  std::vector<Damage> staging_damage;
  auto copy_rings = [&] {
    for (const FoundChunk& chunk : scan.chunks)
      if (chunk.kind == format::ChunkKind::staging) copy_staging(s.file, chunk, running, staging, staging_damage);
  };
  copy_rings();
  // Words may have moved from rings into chunks since the chunks were looked for: look again. What is then in both is
  // taken once (stream_pieces.h).
  // And once more should a chunk be half written just then: damage stays, that does not.
  for (int tries = running ? kTries : 0; tries > 0; tries--) {
    scan = scan_now();
    if (scan.damage.empty()) break;
  }

  s.size_bytes = s.file.size();
  s.find_process(scan.chunks);
  s.process.running = running;
  s.note_stop();
  for (Damage& damage : scan.damage) s.damage.push_back(std::move(damage));
  for (Damage& damage : staging_damage) s.damage.push_back(std::move(damage));
  // A process that was killed while it appended leaves a part of a chunk; its words are still in the ring then.
  const auto ring_holds = [&](const FoundChunk& chunk) {
    return (chunk.kind == format::ChunkKind::events || chunk.kind == format::ChunkKind::packed) &&
           std::any_of(staging.rings.begin(), staging.rings.end(), [&](const RingCopy& ring) {
             return ring.thread == chunk.thread && ring.stream_at <= chunk.stream_at &&
                    chunk.stream_at < ring.stream_at + ring.words.size();
           });
  };
  for (const FoundChunk& chunk : scan.chunks)
    if (chunk.cut && !running && !ring_holds(chunk))
      s.damage.push_back({chunk.payload_at - sizeof(format::ChunkHeader), "the file ends within a chunk"});
  s.streams = join_pieces(s.file, s.header, scan.chunks, staging, s.damage);
  s.lost_events = staging.lost_events + s.header.unregistered_lost;
  if (s.header.mode == format::Mode::ring) s.ring = ring_span(s.streams, s.header.threads);
  s.find_counters(scan.chunks);
  s.find_snapshots(scan.chunks);
  s.find_marks(scan.chunks);
  std::copy_if(scan.chunks.begin(), scan.chunks.end(), std::back_inserter(s.stack_chunks), [](const FoundChunk& chunk) {
    return chunk.kind == format::ChunkKind::stacks || chunk.kind == format::ChunkKind::packed_stacks;
  });
}

Reader::~Reader() = default;

const std::string& Reader::path() const { return state_->file.path(); }
const format::FileHeader& Reader::header() const { return state_->header; }
std::uint64_t Reader::size_bytes() const { return state_->size_bytes; }
const Clock& Reader::clock() const { return state_->clock; }
const ProcessInfo& Reader::process() const { return state_->process; }
const std::vector<ThreadStream>& Reader::threads() const { return state_->streams.threads; }
const std::vector<Damage>& Reader::damage() const { return state_->damage; }
std::uint64_t Reader::lost_events() const { return state_->lost_events + state_->missing_records; }

const std::vector<format::ThreadCounters>& Reader::counters() const { return state_->counters; }
const std::optional<RingSpan>& Reader::ring() const { return state_->ring; }

std::size_t Reader::snapshots() const { return state_->snapshots.size(); }
Tick Reader::snapshot_tick(std::size_t i) const { return state_->snapshots.at(i).info.begin_tick; }
format::SnapshotReason Reader::snapshot_reason(std::size_t i) const { return state_->snapshots.at(i).info.reason; }
std::uint64_t Reader::snapshot_rss(std::size_t i) const { return state_->snapshots.at(i).info.rss_bytes; }
Snapshot Reader::snapshot(std::size_t i) const {
  const SnapshotPlace& place = state_->snapshots.at(i);
  return decode_snapshot(read_payload(state_->file, place.payload_at, place.payload_bytes), state_->header.machine_page_bytes);
}

StackTable& Reader::stacks() const {
  if (!state_->stacks) state_->stacks = std::make_unique<StackTable>(state_->file, state_->stack_chunks, state_->damage);
  return *state_->stacks;
}

const std::vector<Mark>& Reader::outside_marks() const { return state_->marks; }

void Reader::read(const StreamPiece& piece, std::vector<std::uint64_t>& to, std::vector<Sighting>* sightings) const {
  const State& s = *state_;
  if (sightings) sightings->clear();
  if (piece.packed) return s.read_packed(piece, to, sightings);
  if (piece.in_ring) {  // lap bits are off already
    const auto first = s.streams.ring_words.begin() + static_cast<std::ptrdiff_t>(piece.file_offset);
    to.assign(first, first + static_cast<std::ptrdiff_t>(piece.words));
    return;
  }
  to.resize(piece.words);
  to.resize(s.file.read(piece.file_offset, to.data(), to.size() * kWordBytes) / kWordBytes);
  format::ChunkHeader header;
  const std::uint64_t at = piece.file_offset - sizeof header;
  // A piece that was cut or trimmed has no checksum of its own, and was noted when it was found.
  if (read_chunk_header(s.file, piece.file_offset, header) && header.payload_bytes / kWordBytes == piece.words &&
      (to.size() != piece.words || format::checksum(to.data(), to.size() * kWordBytes) != header.payload_checksum))
    s.note_once(at, fmt::format("the checksum of a chunk of thread {} does not hold; some of its {} words are wrong",
                                header.thread, piece.words));
  if (const std::uint64_t holes = clear_lap_bits(to.data(), to.size()))
    s.note_once(piece.file_offset, fmt::format("{} words of thread {} claimed and never written", holes, header.thread));
}

void Reader::note_count(const ThreadStream& thread, std::uint64_t place, std::uint64_t found, std::uint64_t counted) const {
  const State& s = *state_;
  if (!s.miscounts.emplace(thread.id, place).second) return;
  if (counted > found) s.missing_records += counted - found;
  // The piece that holds the word before `place`.
  std::uint64_t offset = 0;
  for (const StreamPiece& piece : thread.pieces)
    if (!piece.in_ring && piece.stream_at < place) offset = piece.file_offset;
  s.damage.push_back({offset, fmt::format("thread {} counted {} records up to word {} of its stream, the trace has {}",
                                          index(thread.id), counted, place, found)});
}

void Reader::note_loss(std::uint64_t more, std::string reason) const {
  state_->missing_records += more;
  state_->damage.push_back({0, std::move(reason)});
}

}  // namespace heapspy::trace
