// TraceBuilder: the file around the threads.
#include "tests/support/trace_builder.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "heapspy/format/decode.h"
#include "heapspy/format/encode.h"
#include "tests/support/payload_bytes.h"

namespace heapspy::test {

TraceBuilder::TraceBuilder(Options options) : options_(options) {
  std::memcpy(header_.magic, format::kMagic, sizeof header_.magic);
  header_.version = format::kVersion;
  header_.header_bytes = format::kPageBytes;
  header_.mode = format::Mode::full;
  header_.clock = format::Clock::stamp;
  header_.tick_kind = format::TickKind::nanosecond;
  header_.machine_page_bytes = 4096;
  header_.pid = 4242;
  header_.ppid = 4241;
  header_.end = static_cast<std::uint32_t>(format::End::exit);
  header_.origin = 5'000'000'000;
  header_.start_realtime_ns = 1'700'000'000'000'000'000;
  header_.pairs[0] = {0, header_.origin};
  header_.max_bytes = 8ull << 30;
  header_.events_per_stamp = 32;
}

ThreadBuilder& TraceBuilder::bare_thread(std::uint32_t tid) {
  return threads_.emplace_back(static_cast<std::uint32_t>(threads_.size() + 1), tid);
}

ThreadBuilder& TraceBuilder::thread(std::string_view name, std::uint32_t tid, Tick tick, std::uint64_t stack_address) {
  return bare_thread(tid).stamp(tick).start(name, stack_address);
}

TraceBuilder& TraceBuilder::process(format::ProcessTag tag, std::string_view content) {
  append_item(process_, static_cast<std::uint32_t>(tag), content);
  return *this;
}

TraceBuilder& TraceBuilder::snapshot(const trace::Snapshot& snapshot) {
  snapshots_.emplace_back(snapshot.begin, encode_snapshot(snapshot));
  return *this;
}

TraceBuilder& TraceBuilder::counters(const format::ThreadCounters& counters) {
  counters_.push_back(counters);
  return *this;
}

std::uint32_t TraceBuilder::cell(std::uint64_t code, std::uint32_t parent, format::CellKind kind) {
  cells_.push_back({code, parent, kind});
  return static_cast<std::uint32_t>(cells_.size());
}

std::uint32_t TraceBuilder::module(std::uint16_t number, std::string_view path, std::string_view build_id, std::uint64_t bias,
                                   std::uint64_t bytes) {
  format::ModuleRecord record{};
  record.start = bias;
  record.end = bias + bytes;
  record.bias = bias;
  record.build_id_bytes = static_cast<std::uint32_t>(build_id.size());
  record.path_bytes = static_cast<std::uint32_t>(path.size());
  std::memcpy(record.build_id, build_id.data(), std::min(build_id.size(), sizeof record.build_id));
  std::string payload(as_bytes(record));
  payload += path;
  return described(number, format::CellKind::module, std::move(payload));
}

std::uint32_t TraceBuilder::method(std::uint32_t number, std::string_view name) {
  const format::MethodRecord record{static_cast<std::uint32_t>(name.size()), 0};
  std::string payload(as_bytes(record));
  payload += name;
  return described(number, format::CellKind::method, std::move(payload));
}

std::uint32_t TraceBuilder::described(std::uint32_t number, format::CellKind kind, std::string payload) {
  pad(payload, sizeof(format::StackCell));
  const std::uint64_t follow = payload.size() / sizeof(format::StackCell);
  const std::uint32_t first = cell(number | follow << 32, 0, kind);
  cells_.resize(cells_.size() + follow);
  std::memcpy(static_cast<void*>(&cells_[first]), payload.data(), payload.size());
  return first;
}

namespace {

// Records that begin before `end`, and those lost before it.
std::uint64_t records_before(const std::vector<std::uint64_t>& words, std::uint64_t end) {
  std::uint64_t records = 0;
  for (std::uint64_t at = 0; at < end; at += std::max<std::uint32_t>(format::record_words(words[at]), 1)) records++;
  return records;
}

struct StringSink {
  std::string bytes;
  void write(std::string_view part) { bytes += part; }
  void pad(std::size_t alignment) { bytes.resize(format::align_up(bytes.size(), alignment)); }
  std::uint64_t size() const { return bytes.size(); }
  void patch_header(const format::FileHeader& header) { std::memcpy(bytes.data(), &header, sizeof header); }
};

struct FileSink {
  std::FILE* file;
  std::uint64_t at = 0;
  explicit FileSink(const std::string& path) : file(std::fopen(path.c_str(), "wb")) {
    if (!file) throw std::runtime_error("cannot write " + path);
  }
  ~FileSink() { std::fclose(file); }
  void write(std::string_view part) { at += std::fwrite(part.data(), 1, part.size(), file); }
  void pad(std::size_t alignment) {
    static const char zeros[format::kPageBytes] = {};
    write({zeros, static_cast<std::size_t>(format::align_up(at, alignment) - at)});
  }
  std::uint64_t size() const { return at; }
  void patch_header(const format::FileHeader& header) {
    std::rewind(file);
    write(as_bytes(header));
  }
};

format::ChunkHeader chunk_header(format::ChunkKind kind, std::string_view payload) {
  format::ChunkHeader header{};
  header.magic = format::kChunkMagic;
  header.kind = kind;
  header.version = 1;
  header.payload_bytes = payload.size();
  header.payload_checksum = format::checksum(payload.data(), payload.size());
  return header;
}

template <typename Sink>
void write_chunk(Sink& sink, format::ChunkHeader header, std::string_view payload) {
  header.header_checksum = format::checksum(&header, sizeof header - sizeof header.header_checksum);
  sink.pad(format::kChunkAlignment);
  sink.write(as_bytes(header));
  sink.write(payload);
  sink.pad(format::kChunkAlignment);
}

}  // namespace

// A thread writes the rings in turn, so its pieces are filled in the order of its stream.
template <typename Sink>
void TraceBuilder::emit_rings(Sink& sink) const {
  struct Piece {
    const ThreadBuilder* thread;
    std::uint64_t from, to, stream_at;
    Tick tick;
    bool last;
  };
  std::vector<Piece> pieces;
  for (const ThreadBuilder& thread : threads_) {
    std::uint64_t at = 0, lost = 0;
    Tick tick = thread.first_tick_;
    for (const ThreadBuilder::Cut& cut : thread.cuts_) {
      if (cut.at > at) pieces.push_back({&thread, at, cut.at, at + lost, tick, false});
      at = cut.at;
      lost += cut.lost;
      tick = cut.tick;
    }
    pieces.push_back({&thread, at, thread.words_.size(), at + lost, tick, true});
  }
  const std::uint64_t ring_words = options_.ring_bytes / sizeof(std::uint64_t);
  std::uint64_t filled = 0;
  for (std::size_t first = 0; first < pieces.size(); first += options_.slots) {
    sink.pad(format::kPageBytes);
    std::string payload, rings;
    payload += as_bytes(format::StagingHeader{options_.slots, options_.ring_bytes, 0, 0, {}});
    for (std::size_t i = first; i < first + options_.slots; i++) {
      format::SlotHeader slot{};
      std::vector<std::uint64_t> ring(ring_words);
      if (i < pieces.size()) {
        const Piece& piece = pieces[i];
        slot.thread = piece.thread->id_;
        slot.tid = piece.thread->tid_;
        slot.stream_delta = 0 - piece.stream_at;
        slot.first_tick = piece.tick;
        if (!piece.last) slot.filled = ++filled;
        for (std::uint64_t k = piece.from; k < piece.to; k++) ring[k - piece.from] = piece.thread->words_[k] | format::kLapBit;
      }
      payload += as_bytes(slot);
      rings += view(ring);
    }
    payload.resize(format::kPageBytes - sizeof(format::ChunkHeader));
    payload += rings;
    format::ChunkHeader header = chunk_header(format::ChunkKind::staging, payload);
    header.payload_checksum = 0;
    write_chunk(sink, header, payload);
  }
}

template <typename Sink>
void TraceBuilder::emit_counters(Sink& sink) const {
  if (counters_.empty()) return;
  sink.pad(format::kPageBytes);
  std::string payload;
  payload +=
      as_bytes(format::CountersHeader{static_cast<std::uint32_t>(counters_.size() + 1), sizeof(format::ThreadCounters), {}});
  for (const format::ThreadCounters& counters : counters_) payload += as_bytes(counters);
  payload.resize(payload.size() + sizeof(format::ThreadCounters));  // a free slot
  format::ChunkHeader header = chunk_header(format::ChunkKind::counters, payload);
  header.payload_checksum = 0;
  write_chunk(sink, header, payload);
}

template <typename Sink>
void TraceBuilder::emit_stacks(Sink& sink) const {
  for (std::size_t first = 0; first < cells_.size(); first += options_.segment_cells) {
    sink.pad(format::kPageBytes);
    const std::size_t end = std::min<std::size_t>(cells_.size(), first + options_.segment_cells);
    const std::size_t unwritten = end == cells_.size() ? 3 : 0;
    std::string payload;
    payload += as_bytes(
        format::StacksHeader{static_cast<std::uint32_t>(first + 1), static_cast<std::uint32_t>(end - first + unwritten), {}});
    for (std::size_t i = first; i < end; i++) payload += as_bytes(cells_[i]);
    payload.resize(payload.size() + unwritten * sizeof(format::StackCell));
    format::ChunkHeader header = chunk_header(format::ChunkKind::stacks, payload);
    header.payload_checksum = 0;
    write_chunk(sink, header, payload);
  }
}

template <typename Sink>
void TraceBuilder::emit(Sink& sink) const {
  sink.write(as_bytes(header_));
  sink.pad(format::kPageBytes);
  if (!process_.empty()) write_chunk(sink, chunk_header(format::ChunkKind::process, process_), process_);

  const std::uint64_t ring_words = options_.ring_bytes / sizeof(std::uint64_t);
  auto lap_bit = [&](std::uint64_t position) { return (position / ring_words & 1) ? 0 : format::kLapBit; };

  // Staging segments: one slot for each thread that keeps a tail.
  const std::uint64_t tail = options_.rings ? 0 : std::min<std::uint64_t>(options_.ring_tail_words, ring_words);
  if (options_.rings) emit_rings(sink);
  emit_counters(sink);
  emit_stacks(sink);
  for (std::size_t first = 0; tail && first < threads_.size(); first += options_.slots) {
    sink.pad(format::kPageBytes);
    std::string payload;
    payload += as_bytes(format::StagingHeader{options_.slots, options_.ring_bytes, 0, 0, {}});
    std::string rings;
    for (std::size_t i = first; i < first + options_.slots; i++) {
      format::SlotHeader slot{};
      std::vector<std::uint64_t> ring(ring_words);
      if (i < threads_.size()) {
        const ThreadBuilder& thread = threads_[i];
        std::uint64_t lost = 0;
        for (const ThreadBuilder::Cut& cut : thread.cuts_) lost += cut.lost;
        const std::uint64_t end = options_.ring_start + lost + thread.words_.size();
        const std::uint64_t kept = std::min<std::uint64_t>(tail, thread.words_.size());
        slot.thread = thread.id_;
        slot.tid = thread.tid_;
        slot.appended = end - kept;
        slot.stream_delta = options_.ring_start;
        slot.lost_events = thread.lost_events_;
        slot.first_tick = thread.first_tick_;
        if (options_.counted) {
          slot.counted_at = end;
          slot.records = records_before(thread.words_, thread.words_.size()) + lost;
        }
        for (std::uint64_t position = end < ring_words ? 0 : end - ring_words; position < end; position++) {
          const std::uint64_t back = end - position;
          const std::uint64_t word = back <= kept ? thread.words_[thread.words_.size() - back] : 0x1111111111111110;
          ring[position % ring_words] = word | lap_bit(position);
        }
      }
      payload += as_bytes(slot);
      rings += view(ring);
    }
    payload.resize(format::kPageBytes - sizeof(format::ChunkHeader));
    payload += rings;
    format::ChunkHeader header = chunk_header(format::ChunkKind::staging, payload);
    header.payload_checksum = 0;
    write_chunk(sink, header, payload);
  }

  Tick last_tick = 0;
  for (const ThreadBuilder& thread : threads_) {
    last_tick = std::max(last_tick, thread.last_tick_);
    if (options_.rings) continue;
    const std::uint64_t kept = std::min<std::uint64_t>(tail, thread.words_.size());
    const std::uint64_t end = thread.words_.size() - kept;
    std::uint64_t at = 0, lost = 0;
    Tick tick = thread.first_tick_;
    auto cut = thread.cuts_.begin();
    while (at < end) {
      for (; cut != thread.cuts_.end() && cut->at <= at; ++cut) {
        lost += cut->lost;
        tick = cut->tick;
      }
      std::uint64_t stop = std::min(end, at + options_.chunk_words);
      if (cut != thread.cuts_.end()) stop = std::min(stop, cut->at);
      std::vector<std::uint64_t> words(thread.words_.begin() + static_cast<std::ptrdiff_t>(at),
                                       thread.words_.begin() + static_cast<std::ptrdiff_t>(stop));
      for (std::uint64_t i = 0; i < words.size(); i++) words[i] |= lap_bit(options_.ring_start + lost + at + i);
      format::ChunkHeader header = chunk_header(format::ChunkKind::events, view(words));
      header.thread = thread.id_;
      header.tid = thread.tid_;
      header.stream_at = at + lost;
      header.first_tick = tick;
      // As if the thread had gone on by two words, where there are so many.
      const std::uint64_t ahead = std::min<std::uint64_t>(2, end - stop);
      if (options_.counted && (cut == thread.cuts_.end() || cut->at > stop + ahead))
        header.records = ahead << 48 | (records_before(thread.words_, stop + ahead) + lost);
      write_chunk(sink, header, view(words));
      at = stop;
    }
  }

  for (const auto& [tick, payload] : snapshots_) {
    format::ChunkHeader header = chunk_header(format::ChunkKind::snapshot, payload);
    header.first_tick = tick;
    write_chunk(sink, header, payload);
    last_tick = std::max(last_tick, tick);
  }

  format::FileHeader header = header_;
  header.threads = static_cast<std::uint32_t>(threads_.size());
  header.append_at = sink.size();
  if (!cells_.empty()) {
    header.stacks = format::Stacks::dwarf;
    header.stack_cells = cells_.size();
  }
  if (!header.end_tick && header.end != static_cast<std::uint32_t>(format::End::running)) header.end_tick = last_tick;
  if (!header.pairs[1].tick) header.pairs[1] = {last_tick, header.origin + last_tick};
  sink.patch_header(header);
}

std::string TraceBuilder::bytes() const {
  StringSink sink;
  emit(sink);
  return std::move(sink.bytes);
}

void TraceBuilder::write(const std::string& path) const {
  FileSink sink(path);
  emit(sink);
}

}  // namespace heapspy::test
