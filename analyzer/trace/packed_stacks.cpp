#include "analyzer/trace/packed_stacks.h"

#include <zstd.h>

#include <cstring>
#include <new>

namespace heapspy::trace {

namespace {

using format::CellKind;
using format::PackedStacksHeader;
using format::StackCell;

constexpr int kLevel = 6;
constexpr std::size_t kLongestNumber = 5;       // bytes of 32 bits
constexpr std::uint64_t kCellsPerByte = 64;     // of a payload, at most; real ones have one or two
constexpr std::uint64_t kCellsOfNothing = 256;  // and so many more

void put(std::string& to, std::uint32_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

// False: there is no number.
bool take(std::string_view& from, std::uint32_t& value) {
  value = 0;
  for (unsigned shift = 0; !from.empty() && shift < 35; shift += 7) {
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    value |= static_cast<std::uint32_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

std::uint32_t zigzag(std::uint32_t difference) { return difference << 1 ^ (0 - (difference >> 31)); }
std::uint32_t unzigzag(std::uint32_t value) { return value >> 1 ^ (0 - (value & 1)); }

std::uint32_t append_frame(std::string& to, std::string_view content) {
  const std::size_t before = to.size();
  to.resize(before + ZSTD_compressBound(content.size()));
  const std::size_t done = ZSTD_compress(to.data() + before, to.size() - before, content.data(), content.size(), kLevel);
  if (ZSTD_isError(done)) throw std::bad_alloc();  // all that can fail here
  to.resize(before + done);
  return static_cast<std::uint32_t>(done);
}

// The next frame of `from`, whose content is at most `most` bytes.
bool take_frame(std::string_view& from, std::size_t bytes, std::size_t most, std::string& to) {
  if (bytes > from.size()) return false;
  const std::size_t length = std::min<std::uint64_t>(ZSTD_getFrameContentSize(from.data(), bytes), most);
  to.resize(length);
  const std::size_t done = ZSTD_decompress(to.data(), to.size(), from.data(), bytes);
  from.remove_prefix(bytes);
  return !ZSTD_isError(done) && done == length;
}

}  // namespace

std::string pack_cells(std::uint32_t first, std::span<const StackCell> cells) {
  std::string codes, parents, kinds;
  for (std::size_t i = 0; i < cells.size(); i++) {
    codes.append(reinterpret_cast<const char*>(&cells[i].code), sizeof cells[i].code);
    put(parents, zigzag(first + static_cast<std::uint32_t>(i) - cells[i].parent));
    put(kinds, static_cast<std::uint32_t>(cells[i].kind));
  }
  PackedStacksHeader header{};
  header.first = first;
  header.cells = static_cast<std::uint32_t>(cells.size());
  std::string payload(sizeof header, '\0');
  header.codes_bytes = append_frame(payload, codes);
  header.parents_bytes = append_frame(payload, parents);
  header.kinds_bytes = append_frame(payload, kinds);
  payload.resize(format::align_up(payload.size(), 8));
  std::memcpy(payload.data(), &header, sizeof header);
  return payload;
}

bool unpack_cells(std::string_view payload, std::uint32_t& first, std::vector<StackCell>& to) {
  to.clear();
  PackedStacksHeader header;
  if (payload.size() < sizeof header) return false;
  std::memcpy(&header, payload.data(), sizeof header);
  first = header.first;
  const std::size_t cells = header.cells;
  if (cells > format::kMostPackedCells || cells > payload.size() * kCellsPerByte + kCellsOfNothing) return false;
  payload.remove_prefix(sizeof header);
  std::string codes, parents, kinds;
  if (!take_frame(payload, header.codes_bytes, cells * sizeof(StackCell::code), codes) ||
      !take_frame(payload, header.parents_bytes, cells * kLongestNumber, parents) ||
      !take_frame(payload, header.kinds_bytes, cells * kLongestNumber, kinds) ||
      codes.size() != cells * sizeof(StackCell::code))
    return false;
  to.resize(cells);
  std::string_view parents_left = parents, kinds_left = kinds;
  for (std::size_t i = 0; i < cells; i++) {
    std::uint32_t below = 0, kind = 0;
    if (!take(parents_left, below) || !take(kinds_left, kind)) {
      to.clear();
      return false;
    }
    std::memcpy(&to[i].code, codes.data() + i * sizeof(StackCell::code), sizeof(StackCell::code));
    to[i].parent = first + static_cast<std::uint32_t>(i) - unzigzag(below);
    to[i].kind = static_cast<CellKind>(kind);
  }
  return true;
}

}  // namespace heapspy::trace
