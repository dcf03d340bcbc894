#include "analyzer/trace/pack.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "analyzer/trace/chunk_scan.h"
#include "analyzer/trace/packed_counters.h"
#include "analyzer/trace/packed_stacks.h"
#include "analyzer/trace/packed_words.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/record_walk.h"
#include "analyzer/trace/replacement_file.h"
#include "analyzer/trace/stack_table.h"
#include "analyzer/trace/trace_file.h"
#include "heapspy/format/decode.h"

namespace heapspy::trace {

namespace {

using format::ChunkHeader;
using format::ChunkKind;

constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);
// A chunk's words: more would cost a reader memory for each thread alive; the smaller half would cost 4 % of space.
constexpr std::size_t kPackedChunkWords = 16384;
constexpr std::size_t kWorthPacking = 64;
constexpr std::uint32_t kEmptyRingBytes = format::kChunkAlignment;
constexpr std::size_t kCopyBytes = 1 << 20;

// What a thread's words are, whatever the chunks they come in.
struct Sum {
  std::uint64_t words = 0, value = 0;
  void add(std::span<const std::uint64_t> more) {
    words += more.size();
    for (const std::uint64_t word : more) value = (value ^ word ^ value >> 29) * 0x9E3779B97F4A7C15ull;
  }
  bool operator==(const Sum&) const = default;
};

class Rewriting {
 public:
  Rewriting(const std::string& from, const std::string& to, const PackSettings& settings)
      : settings_(settings), from_(from), file_(from), reader_(from), out_(to), packer_(settings.zstd_level) {
    if (reader_.process().running || is_being_written(from))
      throw NotPacked(NotPacked::Why::running, fmt::format("{}: process {} still writes it; pack it when the process has ended",
                                                           from, reader_.process().pid));
  }

  Packed run() {
    struct stat like {};
    if (::stat(from_.c_str(), &like) != 0) throw Unreadable(fmt::format("{}: {}", from_, std::strerror(errno)));
    const ChunkScan scan = scan_chunks(file_, reader_.header().header_bytes, ~0ull);
    write_header();
    for (const FoundChunk& chunk : scan.chunks) {
      if (chunk.payload_at >= format::kPageBytes) fill_first_page();
      if (!holds_words(chunk.kind) && !holds_stacks(chunk.kind) && !holds_counters(chunk.kind)) copy(chunk);
    }
    fill_first_page();
    write_stacks();
    write_counters();
    write_slots(scan);
    for (const ThreadStream& thread : reader_.threads()) sums_.push_back(pack(thread));
    out_.pad(format::kChunkAlignment);
    out_.flush();
    const std::uint64_t end = out_.size();
    out_.patch(&end, sizeof end, offsetof(format::FileHeader, append_at));
    if (!reads_the_same())
      throw NotPacked(NotPacked::Why::damaged,
                      fmt::format("{}: is damaged, and packing would hide that; the trace is as it was", from_));
    out_.take_name(like, settings_.to_disk);
    return {static_cast<std::uint64_t>(like.st_size), end, events_};
  }

 private:
  static bool holds_words(ChunkKind kind) {
    return kind == ChunkKind::events || kind == ChunkKind::packed || kind == ChunkKind::staging;
  }

  static bool holds_counters(ChunkKind kind) { return kind == ChunkKind::counters || kind == ChunkKind::packed_counters; }

  static bool holds_stacks(ChunkKind kind) { return kind == ChunkKind::stacks || kind == ChunkKind::packed_stacks; }

  void write_header() {
    std::string page(reader_.header().header_bytes, '\0');
    page.resize(file_.read(0, page.data(), page.size()));
    std::memset(page.data() + offsetof(format::FileHeader, collector), 0, sizeof(format::FileHeader::collector));
    out_.write(page.data(), page.size());
  }

  void fill_first_page() {
    if (out_.size() < format::kPageBytes) out_.pad(format::kPageBytes);
  }

  // As it is, to the last byte.
  void copy(const FoundChunk& chunk) {
    out_.pad(format::kChunkAlignment);
    std::string part;
    std::uint64_t at = chunk.payload_at - sizeof(ChunkHeader);
    for (std::uint64_t left = sizeof(ChunkHeader) + chunk.payload_bytes; left;) {
      part.resize(std::min<std::uint64_t>(left, kCopyBytes));
      const std::uint64_t got = file_.read(at, part.data(), part.size());
      if (!got) break;
      out_.write(part.data(), got);
      at += got;
      left -= got;
    }
  }

  // All segments as one, without the cells at its end that were never written.
  void write_stacks() {
    const std::span<const format::StackCell> cells = reader_.stacks().raw_cells();
    for (std::size_t first = 0; first < cells.size(); first += format::kMostPackedCells) {
      const std::string payload =
          pack_cells(static_cast<std::uint32_t>(first + 1),
                     cells.subspan(first, std::min<std::size_t>(format::kMostPackedCells, cells.size() - first)));
      ChunkHeader header{};
      header.kind = ChunkKind::packed_stacks;
      header.payload_checksum = format::checksum(payload.data(), payload.size());
      write_chunk(header, payload, format::kChunkAlignment);
    }
  }

  void write_chunk(ChunkHeader header, std::string_view payload, std::uint64_t alignment) {
    header.magic = format::kChunkMagic;
    header.version = 1;
    header.payload_bytes = payload.size();
    header.header_checksum = format::checksum(&header, offsetof(ChunkHeader, header_checksum));
    out_.pad(alignment);
    out_.write(&header, sizeof header);
    out_.write(payload.data(), payload.size());
  }

  // All segments as one.
  void write_counters() {
    const std::vector<format::ThreadCounters>& counters = reader_.counters();
    for (std::size_t first = 0; first < counters.size(); first += format::kMostPackedCounters) {
      const std::string payload = pack_counters(
          std::span(counters).subspan(first, std::min<std::size_t>(format::kMostPackedCounters, counters.size() - first)));
      ChunkHeader header{};
      header.kind = ChunkKind::packed_counters;
      header.payload_checksum = format::checksum(payload.data(), payload.size());
      write_chunk(header, payload, format::kChunkAlignment);
    }
  }

  // What slots say and words do not: losses, how far a thread had come. In segments whose rings are empty.
  void write_slots(const ChunkScan& scan) {
    std::map<std::uint32_t, std::uint64_t> ends;
    for (const ThreadStream& thread : reader_.threads())
      if (!thread.pieces.empty()) ends[index(thread.id)] = thread.pieces.back().stream_at + thread.pieces.back().words;
    std::vector<format::SlotHeader> slots;
    for (const FoundChunk& chunk : scan.chunks) {
      format::StagingHeader staging;
      if (chunk.kind != ChunkKind::staging || file_.read(chunk.payload_at, &staging, sizeof staging) != sizeof staging)
        continue;
      for (std::uint32_t i = 0; i < std::min(staging.slots, format::kMaxSlots); i++) {
        format::SlotHeader slot;
        if (file_.read(chunk.payload_at + sizeof staging + i * sizeof slot, &slot, sizeof slot) != sizeof slot) break;
        const std::uint64_t place = slot.appended - slot.stream_delta;
        const auto end = ends.find(slot.thread);
        const bool says_more = slot.thread && (slot.counted_at || end == ends.end() || place > end->second);
        if (!slot.lost_events && !says_more) continue;
        if (slot.counted_at) slot.counted_at -= slot.appended;  // a position; the new ones count from `appended`
        slot.appended = 0;
        slot.stream_delta = 0 - place;
        slots.push_back(slot);
      }
    }
    for (std::size_t first = 0; first < slots.size(); first += format::kMaxSlots) {
      const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(slots.size() - first, format::kMaxSlots));
      const format::StagingHeader staging{count, kEmptyRingBytes, 0, 0, {}};
      std::string payload(reinterpret_cast<const char*>(&staging), sizeof staging);
      payload.append(reinterpret_cast<const char*>(&slots[first]), count * sizeof slots[0]);
      payload.resize(format::kPageBytes - sizeof(ChunkHeader) + static_cast<std::size_t>(count) * kEmptyRingBytes);
      ChunkHeader header{};
      header.kind = ChunkKind::staging;
      write_chunk(header, payload, format::kPageBytes);
    }
  }

  Sum pack(const ThreadStream& thread) {
    Sum sum;
    RecordWalk walk;
    std::vector<std::uint64_t> words, pending;
    std::vector<Sighting> sightings, pending_sightings;
    std::uint64_t pending_at = 0, holes = 0;
    Tick first_tick = 0;
    counted_at_ = counted_ = 0;
    auto write_pending = [&](std::size_t count) {
      if (!count) return;
      ChunkHeader header{};
      header.kind = ChunkKind::packed;
      header.thread = index(thread.id);
      header.tid = thread.tid;
      header.stream_at = pending_at;
      header.first_tick = first_tick;
      const std::uint64_t end = pending_at + count;
      if (counted_at_ >= end && counted_at_ - end < 1 << 16) header.records = (counted_at_ - end) << 48 | counted_;
      const auto later = std::find_if(pending_sightings.begin(), pending_sightings.end(),
                                      [end](const Sighting& each) { return each.at > end; });
      const std::span<const Sighting> seen{pending_sightings.data(),
                                           static_cast<std::size_t>(later - pending_sightings.begin())};
      // A few words are smaller as they are, and quicker to read.
      std::string_view payload(reinterpret_cast<const char*>(pending.data()), count * kWordBytes);
      if (count >= kWorthPacking || holes || !seen.empty())
        payload = packer_.pack({pending.data(), count}, pending_at, seen, static_cast<std::uint32_t>(std::exchange(holes, 0)));
      else
        header.kind = ChunkKind::events;
      header.payload_checksum = format::checksum(payload.data(), payload.size());
      write_chunk(header, payload, format::kChunkAlignment);
      pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(count));
      pending_sightings.erase(pending_sightings.begin(), later);
      pending_at = end;
    };
    for (const StreamPiece& piece : thread.pieces) {
      if (piece.gap) {
        write_pending(pending.size());
        walk.jump();
      }
      note_counted(piece);
      reader_.read(piece, words, &sightings);
      if (words.size() < piece.words) continue;  // damaged: found out by reads_the_same()
      sum.add(words);
      walk.add(words);
      const std::uint64_t more_holes = std::exchange(walk.holes, 0);
      if (worth_keeping(piece)) {
        write_pending(pending.size());
        copy_chunk(piece);
        continue;
      }
      holes += more_holes;
      if (pending.empty()) {
        pending_sightings.clear();
        pending_at = piece.stream_at;
        first_tick = piece.first_tick;
      }
      pending.insert(pending.end(), words.begin(), words.end());
      for (const Sighting& each : sightings)
        if (each.at >= piece.stream_at && each.at <= piece.stream_at + piece.words) pending_sightings.push_back(each);
      while (pending.size() >= kPackedChunkWords) {
        write_pending(kPackedChunkWords);
        first_tick = piece.first_tick;
      }
    }
    write_pending(pending.size());
    events_ += walk.events;
    return sum;
  }

  // A chunk that is as good as a new one would be goes as it is: its words have been read and are right.
  bool worth_keeping(const StreamPiece& piece) const {
    return piece.packed && !piece.skip && piece.words >= settings_.keep_from_words;
  }
  void copy_chunk(const StreamPiece& piece) {
    ChunkHeader header;
    if (!read_chunk_header(file_, piece.file_offset, header)) return;  // found out by reads_the_same()
    std::string payload(header.payload_bytes, '\0');
    payload.resize(file_.read(piece.file_offset, payload.data(), payload.size()));
    out_.pad(format::kChunkAlignment);
    out_.write(&header, sizeof header);
    out_.write(payload.data(), payload.size());
  }

  void note_counted(const StreamPiece& piece) {
    ChunkHeader header;
    if (piece.in_ring || !read_chunk_header(file_, piece.file_offset, header) || !header.records) return;
    counted_at_ = piece.stream_at + piece.words + (header.records >> 48);
    counted_ = header.records & ((1ull << 48) - 1);
  }

  bool reads_the_same() const {
    const Reader again(out_.path());
    if (again.threads().size() != reader_.threads().size() || again.snapshots() != reader_.snapshots() ||
        again.lost_events() != reader_.lost_events() || again.counters().size() != reader_.counters().size() ||
        again.stacks().checksum() != reader_.stacks().checksum())
      return false;
    for (std::size_t i = 0; i < again.threads().size(); i++) {
      const ThreadStream &before = reader_.threads()[i], &after = again.threads()[i];
      if (after.id != before.id || after.tid != before.tid || after.lost_events != before.lost_events) return false;
      Sum sum;
      std::vector<std::uint64_t> words;
      for (const StreamPiece& piece : after.pieces) {
        again.read(piece, words);
        sum.add(words);
      }
      if (sum != sums_[i]) return false;
    }
    const auto reasons = [](const Reader& reader) {
      std::vector<std::string> all;
      for (const Damage& damage : reader.damage()) all.push_back(damage.reason);
      std::sort(all.begin(), all.end());
      return all;
    };
    return reasons(again) == reasons(reader_);
  }

  PackSettings settings_;
  std::string from_;
  TraceFile file_;
  Reader reader_;
  ReplacementFile out_;
  WordPacker packer_;
  std::vector<Sum> sums_;
  std::uint64_t events_ = 0;
  std::uint64_t counted_at_ = 0, counted_ = 0;
};

}  // namespace

Packed pack_trace(const std::string& from, const std::string& to, const PackSettings& settings) {
  if (is_being_written(from)) {
    format::FileHeader header{};
    TraceFile(from).read(0, &header, sizeof header);
    throw NotPacked(NotPacked::Why::running,
                    fmt::format("{}: process {} still writes it; pack it when the process has ended", from, header.pid));
  }
  return Rewriting(from, to, settings).run();
}

// The kernel gives a read lease only where nobody can write: a mapping counts, and other namespaces' processes too.
bool is_being_written(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;
  ::fcntl(fd, F_SETSIG, SIGURG);  // should somebody open it meanwhile: not SIGIO, which kills
  const bool refused = ::fcntl(fd, F_SETLEASE, F_RDLCK) != 0 && errno == EAGAIN;
  ::close(fd);  // gives the lease back too
  return refused;
}

}  // namespace heapspy::trace
