// The packing end of packed_columns.h.

// For one parameter; a zstd that does not know it goes without.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "analyzer/trace/packed_columns.h"
#include "analyzer/trace/packed_words.h"

namespace heapspy::trace {

using namespace packed_columns;  // the two ends are one

namespace {
constexpr int kQuickLevel = 1;
}  // namespace

struct WordPacker::State {
  ZSTD_CCtx* zstd = ZSTD_createCCtx();
  Memory memory;
  StackMemory stacks;
  std::uint32_t number_at[Memory::kBlocks];  // by hash of address: the allocation's number + 1
  std::vector<char> bytes[kColumns];         // room for the longest column so far
  char* end[kColumns];
  std::vector<char> payload;

  ~State() { ZSTD_freeCCtx(zstd); }

  void put(Column c, std::uint64_t byte) { *end[column(c)]++ = static_cast<char>(byte); }
  void put_number(Column c, std::uint64_t value) { end[column(c)] = put_varint(end[column(c)], value); }

  // The mode, after the bytes of the difference have been put into the columns from `first` on.
  unsigned put_difference(Column first, std::uint64_t address, std::uint64_t alike) {
    const std::uint64_t from_last = zigzag(address - memory.last), from_alike = zigzag(address - alike);
    const std::uint64_t difference = std::min(from_last, from_alike);
    const unsigned bytes_needed = difference ? (static_cast<unsigned>(std::bit_width(difference)) + 7) / 8 : 1;
    for (unsigned i = 0; i < bytes_needed; i++) *end[column(first) + i]++ = static_cast<char>(difference >> 8 * i);
    return (from_last <= from_alike ? kFromLast : kFromAlike) + bytes_needed - 1;
  }

  void put_allocation(Operation operation, std::uint64_t address, std::uint64_t size) {
    const std::uint32_t c = Memory::size_class(size);
    unsigned mode;
    if (address == memory.last)
      mode = kSame;
    else if (address == memory.top(c))
      mode = kReused;
    else
      mode = put_difference(Column::allocated, address, memory.allocated[c]);
    put(Column::operations, static_cast<unsigned>(operation) | mode << kModeShift | size >> 16 << kExtraShift);
    put(Column::size_low, size);
    put(Column::size_high, size >> 8);
    memory.note_allocation(address, c, mode);
    number_at[Memory::hash(address)] = memory.allocations;
  }

  void put_release(Operation operation, std::uint64_t address, std::uint64_t extra) {
    unsigned mode;
    const std::uint32_t back = memory.allocations - number_at[Memory::hash(address)];  // 0: the latest
    if (address == memory.last) {
      mode = kSame;
    } else if (back < Memory::kRecentBlocks && back < memory.allocations &&
               memory.recent[(memory.allocations - 1 - back) % Memory::kRecentBlocks] == address) {
      mode = kRecent;
      put(Column::recent, back);
    } else {
      mode = put_difference(Column::released, address, memory.released);
    }
    put(Column::operations, static_cast<unsigned>(operation) | mode << kModeShift | extra << kExtraShift);
    memory.note_release(address);
  }

  void put_stack(std::uint64_t word) {
    const auto stack = static_cast<std::uint32_t>(word >> format::kPayloadShift);
    put(Column::operations, word & 0xFF);
    const unsigned place = StackMemory::place_of(stack);
    if (stacks.predicted() == stack) {
      put(Column::stacks, StackMemory::kPredicted);
    } else if (stacks.places[place] == stack) {
      put(Column::stacks, place);
    } else {
      put(Column::stacks, StackMemory::kNew);
      put_number(Column::others, zigzag(std::uint64_t{stack} - stacks.last_new));
      stacks.places[place] = stacks.last_new = stack;
    }
    stacks.note(stack);
  }

  void put_words(std::span<const std::uint64_t> words) {
    Alike alike;
    std::uint64_t tick = 0;
    for (std::size_t i = 0; i < words.size();) {
      const std::uint64_t word = words[i++];
      const auto operation = static_cast<Operation>(word & 7);
      if (operation != Operation::escape) {
        const std::uint64_t address = word >> format::kAddressShift;
        const std::uint64_t size = word >> format::kSizeShift & (format::kShortSizeLimit - 1);
        if (!is_release(operation)) {
          put_allocation(operation, address, size);
          continue;
        }
        if (size <= 1) {
          put_release(operation, address, size);
          continue;
        }
      } else if (format::is_stamp(word)) {
        put(Column::operations, word & 0xFF);
        const std::uint64_t now = word >> format::kTickShift;
        put_number(Column::ticks, zigzag(now - tick));
        tick = now;
        continue;
      } else if (names_stack(word & 0xFF)) {
        if (is_plain_stack(word)) {
          put_stack(word);
          continue;
        }
      } else if (const std::uint32_t length = format::record_words(word)) {
        put(Column::operations, word & 0xFF);
        const auto kind = static_cast<std::uint32_t>(word >> format::kKindShift & 31);
        auto put_alike = [&](std::uint64_t value, std::uint32_t place) {
          std::uint64_t& before = alike.of(kind, place);
          put_number(Column::others, zigzag(value - before));
          before = value;
        };
        put_alike(word >> 8, 0);
        for (std::uint32_t place = 1; place < length && i < words.size(); place++) put_alike(words[i++], place);
        continue;
      }
      put(Column::operations, 0);
      put_number(Column::others, word);
    }
  }

  void put_sightings(std::span<const Sighting> sightings, std::uint64_t stream_at) {
    Sighting before{stream_at, 0, 0};
    for (const Sighting& each : sightings) {
      put_number(Column::sightings, zigzag(each.at - before.at));
      put_number(Column::sightings, zigzag(each.seen - before.empty));
      put_number(Column::sightings, zigzag(each.empty - each.seen));
      before = each;
    }
  }
};

WordPacker::WordPacker(int zstd_level) : state_(std::make_unique<State>()) {
  ZSTD_CCtx_setParameter(state_->zstd, ZSTD_c_compressionLevel, zstd_level);
  if (zstd_level == kQuickLevel) {
    // Most columns repeat nothing: few looks for repetitions, but always Huffman's code. A third quicker, no larger.
    ZSTD_CCtx_setParameter(state_->zstd, ZSTD_c_targetLength, 64);
    ZSTD_CCtx_setParameter(state_->zstd, ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
  }
  ZSTD_CCtx_setParameter(state_->zstd, ZSTD_c_checksumFlag, 0);
  ZSTD_CCtx_setParameter(state_->zstd, ZSTD_c_dictIDFlag, 0);
}
WordPacker::~WordPacker() = default;

std::string_view WordPacker::pack(std::span<const std::uint64_t> words, std::uint64_t stream_at,
                                  std::span<const Sighting> sightings, std::uint32_t holes) {
  State& s = *state_;
  words = words.first(std::min<std::size_t>(words.size(), kMostPackedWords));
  sightings = sightings.first(std::min<std::size_t>(sightings.size(), kMostPackedWords));
  s.memory.clear();
  s.stacks.clear();
  std::memset(s.number_at, 0, sizeof s.number_at);
  for (std::uint32_t c = 0; c < kColumns; c++) {
    const std::uint64_t room = longest(c, words.size(), sightings.size());
    if (s.bytes[c].size() < room) s.bytes[c].resize(room);
    s.end[c] = s.bytes[c].data();
  }
  s.put_words(words);
  s.put_sightings(sightings, stream_at);

  PackedHeader header{};
  header.words = static_cast<std::uint32_t>(words.size());
  header.sightings = static_cast<std::uint32_t>(sightings.size());
  header.holes = holes;
  std::size_t used = sizeof header;
  for (std::uint32_t c = 0; c < kColumns; c++) {
    const auto raw = static_cast<std::size_t>(s.end[c] - s.bytes[c].data());
    if (!raw) continue;
    if (raw <= kShortColumn) {
      if (s.payload.size() < used + raw) s.payload.resize(used + raw + 4096);
      std::memcpy(s.payload.data() + used, s.bytes[c].data(), raw);
      header.column_bytes[c] = static_cast<std::uint32_t>(raw) | format::kColumnAsItIs;
      used += raw;
      continue;
    }
    if (const std::size_t room = used + ZSTD_compressBound(raw) + 8; s.payload.size() < room) s.payload.resize(room);
    const std::size_t done = ZSTD_compress2(s.zstd, s.payload.data() + used, s.payload.size() - used, s.bytes[c].data(), raw);
    // Out of memory is all that can fail here.
    if (ZSTD_isError(done)) throw std::bad_alloc();
    header.column_bytes[c] = static_cast<std::uint32_t>(done);
    used += done;
  }
  if (s.payload.size() < used + 8) s.payload.resize(used + 8);
  const std::size_t whole = format::align_up(used, 8);
  std::memset(s.payload.data() + used, 0, whole - used);
  header.checksum = format::checksum(&header, offsetof(PackedHeader, checksum));
  std::memcpy(s.payload.data(), &header, sizeof header);
  return {s.payload.data(), whole};
}

}  // namespace heapspy::trace
