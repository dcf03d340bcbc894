#include "tests/support/trace_builder.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <stdexcept>

#include "heapspy/format/decode.h"
#include "heapspy/format/encode.h"

namespace heapspy::test {

using format::Kind;
using format::Operation;
using format::Origin;
using format::Release;

namespace {

template <typename T>
std::string_view as_bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

void pad(std::string& to, std::size_t alignment) { to.resize(format::align_up(to.size(), alignment)); }

void append_item(std::string& to, std::uint32_t tag, std::string_view content) {
  to += as_bytes(format::TaggedItem{tag, 0, content.size()});
  to += content;
  pad(to, 8);
}

void append_item(std::string& to, format::SnapshotTag tag, std::string_view content) {
  append_item(to, static_cast<std::uint32_t>(tag), content);
}

}  // namespace

// ---- threads -----------------------------------------------------------------------------------------------------
ThreadBuilder& ThreadBuilder::word(std::uint64_t value) {
  words_.push_back(value);
  return *this;
}

ThreadBuilder& ThreadBuilder::stamp(Tick tick) {
  if (!stamped_) first_tick_ = tick;
  stamped_ = true;
  last_tick_ = tick;
  return word(format::encode_stamp(Kind::stamp, tick));
}

ThreadBuilder& ThreadBuilder::stamp_off_cpu(Tick tick) {
  stamp(tick);
  words_.back() = format::encode_stamp(Kind::stamp_off_cpu, tick);
  return *this;
}

ThreadBuilder& ThreadBuilder::record(Kind kind, std::uint64_t payload, std::initializer_list<std::uint64_t> numbers,
                                     std::string_view text) {
  std::uint64_t encoded[format::kMaxRecordWords];
  const std::string terminated(text);
  const auto room = static_cast<std::uint32_t>(format::kMaxRecordWords - 1 - numbers.size());
  const std::uint32_t text_words = format::encode_text(terminated.c_str(), encoded, room);
  const auto words = static_cast<std::uint32_t>(1 + numbers.size() + text_words);
  word(format::encode_first(kind, words, payload));
  for (const std::uint64_t number : numbers) word(format::encode_number(number));
  for (std::uint32_t i = 0; i < text_words; i++) word(encoded[i]);
  return *this;
}

ThreadBuilder& ThreadBuilder::allocation(Origin origin, Operation operation, std::uint64_t address, std::uint64_t size) {
  if (format::fits_short(address, size)) return word(format::encode_short(operation, address, size));
  return record(Kind::allocation, format::encode_allocation_payload(origin, 0), {address, size});
}

ThreadBuilder& ThreadBuilder::malloc(std::uint64_t address, std::uint64_t size) {
  return allocation(Origin::malloc, Operation::malloc, address, size);
}
ThreadBuilder& ThreadBuilder::calloc(std::uint64_t address, std::uint64_t size) {
  return allocation(Origin::calloc, Operation::calloc, address, size);
}
ThreadBuilder& ThreadBuilder::operator_new(std::uint64_t address, std::uint64_t size) {
  return allocation(Origin::operator_new, Operation::operator_new, address, size);
}
ThreadBuilder& ThreadBuilder::realloc_new(std::uint64_t address, std::uint64_t size) {
  return allocation(Origin::realloc, Operation::realloc_new, address, size);
}
ThreadBuilder& ThreadBuilder::aligned(std::uint64_t address, std::uint64_t size, unsigned log2_alignment) {
  return record(Kind::allocation, format::encode_allocation_payload(Origin::aligned, log2_alignment), {address, size});
}
ThreadBuilder& ThreadBuilder::operator_new_aligned(std::uint64_t address, std::uint64_t size, unsigned log2_alignment) {
  return record(Kind::allocation, format::encode_allocation_payload(Origin::operator_new_aligned, log2_alignment),
                {address, size});
}

ThreadBuilder& ThreadBuilder::free(std::uint64_t address) {
  if (format::fits_short(address, 0)) return word(format::encode_short(Operation::free, address, 0));
  return record(Kind::release, static_cast<std::uint64_t>(Release::free), {address});
}
ThreadBuilder& ThreadBuilder::operator_delete(std::uint64_t address) {
  constexpr auto release = static_cast<std::uint64_t>(Release::operator_delete);
  if (format::fits_short(address, 0)) return word(format::encode_short(Operation::free, address, release));
  return record(Kind::release, release, {address});
}

ThreadBuilder& ThreadBuilder::realloc(std::uint64_t before, std::uint64_t after, std::uint64_t size) {
  return realloc_begin(before).realloc_end(after, size);
}
ThreadBuilder& ThreadBuilder::realloc_begin(std::uint64_t address) {
  if (format::fits_short(address, 0)) return word(format::encode_short(Operation::realloc_begin, address, 0));
  return record(Kind::realloc_begin, 0, {address});
}
ThreadBuilder& ThreadBuilder::realloc_end(std::uint64_t address, std::uint64_t size) {
  if (format::fits_short(address, size)) return word(format::encode_short(Operation::realloc_end, address, size));
  return record(Kind::realloc_end, 0, {address, size});
}
ThreadBuilder& ThreadBuilder::realloc_failed(std::uint64_t size) { return record(Kind::realloc_failed, 0, {size}); }
ThreadBuilder& ThreadBuilder::realloc_freed() { return record(Kind::realloc_freed, 0, {}); }

ThreadBuilder& ThreadBuilder::failed(Origin origin, std::uint64_t size) {
  return record(Kind::failed, static_cast<std::uint64_t>(origin), {size});
}
ThreadBuilder& ThreadBuilder::start(std::string_view name, std::uint64_t stack_address) {
  return record(Kind::thread_start, tid_, {stack_address}, name);
}
ThreadBuilder& ThreadBuilder::name(std::string_view text, std::uint32_t tid) {
  return record(Kind::thread_name, tid ? tid : tid_, {}, text);
}
ThreadBuilder& ThreadBuilder::java(std::string_view group, bool daemon, std::uint32_t tid) {
  return record(Kind::java_thread, (tid ? tid : tid_) | (daemon ? format::kDaemonBit : 0), {}, group);
}
ThreadBuilder& ThreadBuilder::end() { return record(Kind::thread_end, 0, {}); }
ThreadBuilder& ThreadBuilder::mark(std::string_view text) { return record(Kind::mark, 0, {}, text); }
ThreadBuilder& ThreadBuilder::stack(std::uint64_t cell) { return record(Kind::stack, cell, {}); }

ThreadBuilder& ThreadBuilder::paused() { return record(Kind::paused, 0, {}); }
ThreadBuilder& ThreadBuilder::resumed() { return record(Kind::resumed, 0, {}); }

ThreadBuilder& ThreadBuilder::chunk() { return lose(0); }

ThreadBuilder& ThreadBuilder::lose(std::uint64_t words, std::uint64_t events) {
  cuts_.push_back({words_.size(), words, last_tick_});
  lost_events_ += events;
  return *this;
}

// ---- the file ----------------------------------------------------------------------------------------------------
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

std::string_view view(const std::vector<std::uint64_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(std::uint64_t)};
}

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

// ---- snapshots ---------------------------------------------------------------------------------------------------
std::string encode_snapshot(const trace::Snapshot& snapshot) {
  std::string payload;
  const format::SnapshotInfo info{
      snapshot.begin,     snapshot.end,           snapshot.reason, snapshot.brk_end ? 1u : 0u, snapshot.brk_end.value_or(0),
      snapshot.rss_bytes, snapshot.recorder_bytes};
  append_item(payload, format::SnapshotTag::info, as_bytes(info));

  std::string content;
  for (const trace::Mapping& mapping : snapshot.mappings) {
    const std::uint32_t permissions =
        (mapping.read ? 1u : 0u) | (mapping.write ? 2u : 0u) | (mapping.execute ? 4u : 0u) | (mapping.shared ? 8u : 0u);
    content += as_bytes(format::MappingRecord{mapping.start, mapping.end, mapping.file_offset, mapping.inode, mapping.rss_bytes,
                                              mapping.anonymous_bytes, mapping.swap_bytes, mapping.anon_huge_bytes,
                                              mapping.private_dirty_bytes, permissions,
                                              static_cast<std::uint32_t>(mapping.name.size())});
    content += mapping.name;
    pad(content, 8);
  }
  append_item(payload, format::SnapshotTag::mappings, content);

  content.clear();
  for (const trace::ResidentPages& pages : snapshot.resident) {
    content += as_bytes(
        format::ResidencyRecord{pages.start, pages.pages, pages.kind, static_cast<std::uint32_t>(pages.bitmap.size())});
    content += view(pages.bitmap);
  }
  append_item(payload, format::SnapshotTag::residency, content);

  content.clear();
  for (const format::HeapRecord& heap : snapshot.heaps) content += as_bytes(heap);
  append_item(payload, format::SnapshotTag::heaps, content);

  content.clear();
  for (const auto& [tid, name] : snapshot.thread_names) {
    format::ThreadRecord thread{tid, 0, {}};
    name.copy(thread.name, sizeof thread.name);
    content += as_bytes(thread);
  }
  append_item(payload, format::SnapshotTag::threads, content);

  append_item(payload, format::SnapshotTag::status_text, snapshot.status_text);
  for (const auto& [file, text] : snapshot.cgroup)
    append_item(payload, format::SnapshotTag::cgroup_text, file + "\n" + text + "\n");
  return payload;
}

// ---- files -------------------------------------------------------------------------------------------------------
// In memory where the kernel can: thousands of small rewrites cost a disk seconds. The path holds for child processes too.
TemporaryFile::TemporaryFile(const std::string& content) {
  descriptor_ = memfd_create("heapspy-test", MFD_CLOEXEC);
  if (descriptor_ >= 0) {
    path_ = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor_);
  } else {
    const char* folder = getenv("TMPDIR");
    path_ = std::string(folder && *folder ? folder : "/tmp") + "/heapspy-test-XXXXXX";
    descriptor_ = mkstemp(path_.data());
    if (descriptor_ < 0) throw std::runtime_error("cannot make a temporary file: " + path_);
    on_disk_ = true;
  }
  if (!content.empty()) write(content);
}

TemporaryFile::~TemporaryFile() {
  close(descriptor_);
  if (on_disk_) unlink(path_.c_str());
}

void TemporaryFile::write(std::string_view content) {
  std::FILE* file = std::fopen(path_.c_str(), "wb");
  if (!file) throw std::runtime_error("cannot write " + path_);
  std::fwrite(content.data(), 1, content.size(), file);
  std::fclose(file);
}

}  // namespace heapspy::test
