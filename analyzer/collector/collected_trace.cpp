#include "analyzer/collector/collected_trace.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "analyzer/trace/process_decode.h"

namespace heapspy::collector {

namespace {

using format::ChunkHeader;
using format::ChunkKind;

// Looks that find nothing where a chunk was reserved: its writer was killed, or could not write.
constexpr unsigned kStuck = 100;
// Words staged at which a ring's owner empties it itself, collector or not (preload/src/event_room.cpp: kLateWords).
constexpr std::uint64_t kOwnerAppendsAt = 15872;

bool read_at(int fd, std::uint64_t at, void* to, std::size_t bytes) {
  return ::pread(fd, to, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
}

bool read_chunk(int fd, std::uint64_t at, ChunkHeader& header) {
  return read_at(fd, at, &header, sizeof header) && header.magic == format::kChunkMagic &&
         header.header_checksum == format::checksum(&header, offsetof(ChunkHeader, header_checksum));
}

// What the process says its environment gave as HEAPSPY_COLLECTOR. False: it has not described itself yet.
bool read_collector(int fd, std::uint64_t begin, std::uint64_t end, std::string& to) {
  for (std::uint64_t at = begin; at + sizeof(ChunkHeader) <= end;) {
    ChunkHeader header;
    if (!read_chunk(fd, at, header) || header.payload_bytes > end) {
      if (at >= format::kPageBytes) return false;
      at = format::kPageBytes;
      continue;
    }
    if (header.kind == ChunkKind::process) {
      std::string payload(header.payload_bytes, '\0');
      if (!read_at(fd, at + sizeof header, payload.data(), payload.size()) ||
          format::checksum(payload.data(), payload.size()) != header.payload_checksum)
        return false;
      to.clear();
      for (const auto& [name, value] : trace::decode_process({}, payload).environment)
        if (name == "HEAPSPY_COLLECTOR") to = value;
      return true;
    }
    at = format::align_up(at + sizeof header + header.payload_bytes, format::kChunkAlignment);
  }
  return false;
}

}  // namespace

CollectedTrace::Opened CollectedTrace::open(const std::string& path, const std::string& ours,
                                            std::unique_ptr<CollectedTrace>& to) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return errno == EMFILE || errno == ENFILE ? Opened::not_yet : Opened::not_ours;
  format::FileHeader seen{};
  struct stat status {};
  std::string collector;
  Opened opened = Opened::not_ours;
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid()) {
    opened = Opened::not_yet;
    if (read_at(fd, 0, &seen, sizeof seen) && std::memcmp(seen.magic, format::kMagic, sizeof seen.magic) == 0 && seen.pid &&
        seen.header_bytes >= sizeof seen && seen.header_bytes <= format::kPageBytes &&
        read_collector(fd, seen.header_bytes,
                       std::min<std::uint64_t>(seen.append_at, static_cast<std::uint64_t>(status.st_size)), collector))
      opened = collector == ours && seen.version <= format::kVersion ? Opened::yes : Opened::not_ours;
  }
  void* page = MAP_FAILED;
  if (opened == Opened::yes) page = ::mmap(nullptr, format::kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) {
    ::close(fd);
    return opened == Opened::yes ? Opened::not_ours : opened;
  }
  to.reset(new CollectedTrace(path, fd, static_cast<format::FileHeader*>(page)));
  return Opened::yes;
}

CollectedTrace::CollectedTrace(std::string path, int descriptor, format::FileHeader* header)
    : path_(std::move(path)), descriptor_(descriptor), header_(header) {
  // About a millisecond, whatever the clock.
  sighting_interval_ = header_->tick_kind == format::TickKind::tsc4 ? 750'000 : 1'000'000;
  std::atomic_ref<std::uint32_t>(header_->collector).store(static_cast<std::uint32_t>(::getpid()), std::memory_order_relaxed);
  find_segments();
}

CollectedTrace::~CollectedTrace() {
  std::atomic_ref<std::uint32_t>(header_->collector).store(0, std::memory_order_relaxed);
  for (const Mapping& each : mappings_) ::munmap(each.at, each.bytes);
  ::munmap(header_, format::kPageBytes);
  ::close(descriptor_);
}

bool CollectedTrace::has_ended() const {
  return std::atomic_ref<std::uint32_t>(header_->end).load(std::memory_order_acquire) !=
         static_cast<std::uint32_t>(format::End::running);
}

void CollectedTrace::beat() { std::atomic_ref<std::uint32_t>(header_->collector_beat).fetch_add(1, std::memory_order_relaxed); }

Tick CollectedTrace::now() const {
#if defined(__x86_64__)
  if (header_->tick_kind == format::TickKind::tsc4) {
    __builtin_ia32_lfence();
    const std::uint64_t cycles = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return (cycles - header_->origin) >> 2;
  }
#endif
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec) - header_->origin;
}

// Segments and full chunks begin at whole pages or at multiples of 64 KiB: zeros before them are no chunk to wait for.
bool CollectedTrace::skip_to_alignment(std::uint64_t end) {
  for (const std::uint64_t alignment : {std::uint64_t{format::kPageBytes}, std::uint64_t{16 * format::kPageBytes}}) {
    const std::uint64_t at = format::align_up(segments_to_, alignment);
    ChunkHeader header;
    if (at == segments_to_ || at + sizeof header > end || !read_chunk(descriptor_, at, header)) continue;
    segments_to_ = at;
    return true;
  }
  return false;
}

void CollectedTrace::find_segments() {
  const std::uint64_t end = std::atomic_ref<std::uint64_t>(header_->append_at).load(std::memory_order_acquire);
  if (end == looked_to_) return;
  while (segments_to_ + sizeof(ChunkHeader) <= end) {
    ChunkHeader header;
    if (!read_chunk(descriptor_, segments_to_, header)) {
      if (skip_to_alignment(end)) continue;
      // Reserved and not written: now or never. After a while the next multiple of the alignment is tried; the threads of a
      // segment that is passed over so empty their rings themselves.
      if (++stuck_ < kStuck) return;
      segments_to_ += format::kChunkAlignment;
      continue;
    }
    stuck_ = 0;
    format::StagingHeader staging;
    if (header.kind == ChunkKind::staging && read_at(descriptor_, segments_to_ + sizeof header, &staging, sizeof staging))
      map_segment(segments_to_, staging);
    segments_to_ = format::align_up(segments_to_ + sizeof header + header.payload_bytes, format::kChunkAlignment);
  }
  looked_to_ = end;
}

void CollectedTrace::map_segment(std::uint64_t at, const format::StagingHeader& staging) {
  if (header_->mode != format::Mode::full && header_->mode != format::Mode::sample) return;
  if (staging.ring_bytes < format::kCollectedRingBytes || !std::has_single_bit(staging.ring_bytes) ||
      staging.ring_bytes > format::kMostPackedWords * 8 || staging.slots == 0 || staging.slots > format::kMaxSlots ||
      at % static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)))
    return;
  const std::size_t bytes = format::kPageBytes + static_cast<std::size_t>(staging.slots) * staging.ring_bytes;
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || static_cast<std::uint64_t>(status.st_size) < at + bytes) return;
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, static_cast<off_t>(at));
  if (mapped == MAP_FAILED) return;
  mappings_.push_back({mapped, bytes});
  char* base = static_cast<char*>(mapped);
  auto* slots = reinterpret_cast<format::SlotHeader*>(base + sizeof(ChunkHeader) + sizeof(format::StagingHeader));
  for (std::uint32_t i = 0; i < staging.slots; i++)
    rings_.emplace_back(
        slots + i,
        reinterpret_cast<const std::uint64_t*>(base + format::kPageBytes + static_cast<std::size_t>(i) * staging.ring_bytes),
        staging.ring_bytes / 8);
}

Fill CollectedTrace::round(std::uint64_t from_words, trace::WordPacker& packer) {
  Fill fill;
  if (full_) return fill;
  const Tick before = now();
  std::uint64_t to_take = 0;
  for (CollectedRing& ring : rings_) {
    const std::uint64_t seen = ring.seen_words();
    const std::uint64_t words = ring.look(before, sighting_interval_);
    fill.words = std::max(fill.words, words);
    if (ring.seen_words() > seen) fill.fresh = std::max(fill.fresh, ring.seen_words() - seen);
    if (words >= from_words) to_take += words;
  }
  const Tick after = now();
  for (CollectedRing& ring : rings_) ring.looked(after);
  const bool hurry = must_hurry(fill, to_take, before - std::exchange(looked_at_, before));
  for (CollectedRing& ring : rings_) {
    CollectedRing::Words words;
    if (ring.staged() < from_words || ring.staged() == 0 || !ring.take(words)) continue;
    if (!(hurry ? append_as_they_are(words) : append_packed(words, packer))) {
      full_ = true;
      break;
    }
    ring.take_off();
  }
  return fill;
}

// Whether the fullest ring would be full before `words` are packed, at the pace of the last `interval`. Words come in at up to
// 12 ns each and 8 to 22 pack one: then they go to the file as they are and are packed when the process has ended.
bool CollectedTrace::must_hurry(const Fill& fill, std::uint64_t words, Tick interval) const {
  if (!fill.fresh || !words) return false;
  const double left = kOwnerAppendsAt > fill.words ? static_cast<double>(kOwnerAppendsAt - fill.words) : 0;
  const double until_full = left * static_cast<double>(interval) / static_cast<double>(fill.fresh);
  return pack_ticks_ * static_cast<double>(words) > until_full / 2;
}

bool CollectedTrace::append_packed(const CollectedRing::Words& words, trace::WordPacker& packer) {
  const Tick before = now();
  const std::string_view payload = packer.pack(words.words, words.stream_at, words.sightings);
  const double ticks = static_cast<double>(now() - before) / static_cast<double>(words.words.size());
  pack_ticks_ = pack_ticks_ ? pack_ticks_ * 0.9 + ticks * 0.1 : ticks;
  return append(words, ChunkKind::packed, payload);
}

bool CollectedTrace::append_as_they_are(const CollectedRing::Words& words) {
  return append(words, ChunkKind::events,
                {reinterpret_cast<const char*>(words.words.data()), words.words.size() * sizeof(std::uint64_t)});
}

// The protocol of the recorder: a place is reserved by moving append_at, then written at once.
bool CollectedTrace::append(const CollectedRing::Words& words, ChunkKind kind, std::string_view payload) {
  const std::uint64_t whole = sizeof(ChunkHeader) + payload.size();
  std::atomic_ref<std::uint64_t> end(header_->append_at);
  std::uint64_t seen = end.load(std::memory_order_relaxed), at;
  do {
    at = format::align_up(seen, format::kChunkAlignment);
    if (at + whole > header_->max_bytes) return false;  // the threads will find out themselves, and say so
  } while (!end.compare_exchange_weak(seen, format::align_up(at + whole, format::kChunkAlignment), std::memory_order_relaxed));
  ChunkHeader header{};
  header.magic = format::kChunkMagic;
  header.kind = kind;
  header.version = 1;
  header.payload_bytes = payload.size();
  header.thread = words.thread;
  header.tid = words.tid;
  header.stream_at = words.stream_at;
  header.first_tick = words.first_tick;
  header.payload_checksum = format::checksum(payload.data(), payload.size());
  header.header_checksum = format::checksum(&header, offsetof(ChunkHeader, header_checksum));
  const iovec parts[2] = {{&header, sizeof header}, {const_cast<char*>(payload.data()), payload.size()}};
  const ssize_t wrote = ::pwritev(descriptor_, parts, 2, static_cast<off_t>(at));
  if (wrote == static_cast<ssize_t>(whole)) return true;
  // A full disk. What came out short loses its header: its words are in the ring still.
  static const ChunkHeader none{};
  if (wrote > 0 && ::pwrite(descriptor_, &none, sizeof none, static_cast<off_t>(at)) < 0) return false;
  return false;
}

}  // namespace heapspy::collector
