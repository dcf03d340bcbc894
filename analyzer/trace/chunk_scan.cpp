#include "analyzer/trace/chunk_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace heapspy::trace {

namespace {

constexpr std::uint64_t kStep = format::kChunkAlignment;
constexpr std::uint64_t kLongestPayload = 1ull << 62;  // more would overflow offsets
constexpr std::uint64_t kWindowBytes = 64 * 1024;

bool is_header(const format::ChunkHeader& header) {
  return header.magic == format::kChunkMagic &&
         header.header_checksum == format::checksum(&header, sizeof header - sizeof header.header_checksum);
}

bool is_zero(const format::ChunkHeader& header) {
  static const format::ChunkHeader zero{};
  return std::memcmp(&header, &zero, sizeof zero) == 0;
}

// A window of the file that moves forward.
class Window {
 public:
  explicit Window(const TraceFile& file) : file_(file), bytes_(kWindowBytes) {}

  // What could be a chunk header at `offset`. False: the file ends before it does.
  bool header(std::uint64_t offset, bool scanning, format::ChunkHeader& to) {
    if (offset > kLongestPayload) return false;
    if (offset < at_ || offset + sizeof to > at_ + filled_) {
      at_ = offset;
      // Stepping from chunk to chunk needs 64 bytes of each; searching reads everything.
      filled_ = file_.read(offset, bytes_.data(), scanning ? kWindowBytes : sizeof to);
      if (filled_ < sizeof to) return false;
    }
    std::memcpy(&to, bytes_.data() + (offset - at_), sizeof to);
    return true;
  }

 private:
  const TraceFile& file_;
  std::vector<char> bytes_;
  std::uint64_t at_ = 0, filled_ = 0;
};

}  // namespace

bool read_chunk_header(const TraceFile& file, std::uint64_t payload_at, format::ChunkHeader& to) {
  return payload_at >= sizeof to && file.read(payload_at - sizeof to, &to, sizeof to) == sizeof to && is_header(to);
}

ChunkScan scan_chunks(const TraceFile& file, std::uint64_t from, std::uint64_t limit) {
  ChunkScan scan;
  Window window(file);
  format::ChunkHeader header;
  std::uint64_t damaged_from = 0;
  bool damaged = false, searching = false;
  auto end_damage = [&](std::uint64_t end) {
    if (damaged)
      scan.damage.push_back(
          {damaged_from, fmt::format("{} bytes are no part of a trace: damaged, skipped", end - damaged_from)});
    damaged = false;
  };

  std::uint64_t at = from;
  while (at < limit && window.header(at, searching, header)) {
    if (is_header(header)) {
      end_damage(at);
      searching = false;
      FoundChunk chunk;
      chunk.payload_at = at + sizeof header;
      chunk.payload_bytes = header.payload_bytes;
      chunk.stream_at = header.stream_at;
      chunk.records = header.records;
      chunk.first_tick = header.first_tick;
      chunk.thread = header.thread;
      chunk.tid = header.tid;
      chunk.kind = header.kind;
      scan.chunks.push_back(chunk);
      at = header.payload_bytes < kLongestPayload ? format::align_up(chunk.payload_at + chunk.payload_bytes, kStep) : ~0ull;
      continue;
    }
    if (is_zero(header)) {
      searching = true;
      at += kStep;
      if (at % kWindowBytes == 0) at = std::max(at, file.next_data(at) / kStep * kStep);  // leaps over holes
      continue;
    }
    if (!damaged) damaged_from = at;
    damaged = searching = true;
    at += kStep;
  }
  // Fewer bytes than a header are left: the end of a chunk that was cut, unless they are zeros.
  const std::uint64_t size = file.size();
  if (at < std::min(size, limit)) {
    char rest[sizeof header] = {};
    const std::uint64_t got = file.read(at, rest, std::min<std::uint64_t>(size - at, sizeof rest));
    if (std::any_of(rest, rest + got, [](char byte) { return byte != 0; }) && !damaged) {
      damaged = true;
      damaged_from = at;
    }
  }
  end_damage(std::min(size, limit));
  // A trace that is being written grows: what was cut when its header was read may be whole now.
  for (FoundChunk& chunk : scan.chunks) {
    const std::uint64_t there = size > chunk.payload_at ? size - chunk.payload_at : 0;
    chunk.cut = there < chunk.payload_bytes;
    chunk.payload_bytes = std::min(chunk.payload_bytes, there);
  }
  return scan;
}

}  // namespace heapspy::trace
