// The unpacking end of packed_columns.h: reads bytes that may be damaged.
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

std::size_t read_packed_header(std::string_view payload, PackedHeader& to) {
  const auto read = [&](auto& header) {
    if (payload.size() < sizeof header) return false;
    std::memcpy(&header, payload.data(), sizeof header);
    return header.checksum == format::checksum(&header, sizeof header - sizeof header.checksum) &&
           header.words <= kMostPackedWords && header.sightings <= kMostPackedWords;
  };
  if (read(to)) return sizeof to;
  format::PackedHeaderWithoutStacks older;
  if (!read(older)) return 0;
  to = {};
  to.words = older.words;
  to.sightings = older.sightings;
  std::copy(std::begin(older.column_bytes), std::end(older.column_bytes), to.column_bytes);
  to.holes = older.holes;
  return sizeof older;
}

struct WordUnpacker::State {
  ZSTD_DCtx* zstd = ZSTD_createDCtx();
  Memory memory;
  StackMemory stacks;
  std::vector<unsigned char> bytes[kColumns];
  const unsigned char* at[kColumns];
  const unsigned char* end[kColumns];
  std::uint64_t holes = 0;

  ~State() { ZSTD_freeDCtx(zstd); }

  // Columns of bytes are as long as there are words, zeros at the end: no record takes more than one byte of one, so none
  // can be read beyond.
  bool fill(const PackedHeader& header, std::size_t from, std::string_view payload) {
    for (std::uint32_t c = 0; c < kColumns; c++) {
      const std::size_t packed = header.column_bytes[c] & ~format::kColumnAsItIs;
      const bool as_it_is = header.column_bytes[c] & format::kColumnAsItIs;
      const std::uint64_t room = longest(c, header.words, header.sightings);
      std::size_t length = 0;
      if (packed) {
        if (packed > payload.size() - from || (as_it_is && packed > room)) return false;
        // Columns of numbers are rarely near their longest: as long as the frame says, if that is possible.
        std::uint64_t wanted = room;
        if (!is_of_bytes(c)) wanted = std::min<std::uint64_t>(room, ZSTD_getFrameContentSize(payload.data() + from, packed));
        if (bytes[c].size() < wanted) bytes[c].resize(wanted);
        if (as_it_is)
          std::memcpy(bytes[c].data(), payload.data() + from, length = packed);
        else
          length = ZSTD_decompressDCtx(zstd, bytes[c].data(), wanted, payload.data() + from, packed);
        if (ZSTD_isError(length)) return false;
        from += packed;
      }
      if (is_of_bytes(c)) {
        if (bytes[c].size() < room) bytes[c].resize(room);
        std::memset(bytes[c].data() + length, 0, room - length);
      }
      at[c] = bytes[c].data();
      end[c] = bytes[c].data() + length;
    }
    return true;
  }

  unsigned char byte(Column c) { return *at[column(c)]++; }

  std::uint64_t difference(Column first, unsigned count) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < count; i++) value |= static_cast<std::uint64_t>(*at[column(first) + i]++) << 8 * i;
    return unzigzag(value);
  }

  std::uint64_t allocation(Operation operation, unsigned mode, std::uint64_t extra) {
    const std::uint64_t size = extra << 16 | static_cast<std::uint64_t>(byte(Column::size_high)) << 8 | byte(Column::size_low);
    const std::uint32_t c = Memory::size_class(size);
    std::uint64_t address;
    if (mode == kSame)
      address = memory.last;
    else if (mode == kReused)
      address = memory.top(c);
    else if (mode >= kFromAlike)
      address = memory.allocated[c] + difference(Column::allocated, mode - kFromAlike + 1);
    else
      address = memory.last + difference(Column::allocated, mode - kFromLast + 1);
    memory.note_allocation(address, c, mode);
    return static_cast<std::uint64_t>(operation) | size << format::kSizeShift | address << format::kAddressShift;
  }

  std::uint64_t release(Operation operation, unsigned mode, std::uint64_t extra) {
    std::uint64_t address;
    if (mode == kSame)
      address = memory.last;
    else if (mode == kRecent)
      address = memory.recent[(memory.allocations - 1 - byte(Column::recent)) % Memory::kRecentBlocks];
    else if (mode >= kFromAlike)
      address = memory.released + difference(Column::released, mode - kFromAlike + 1);
    else
      address = memory.last + difference(Column::released, mode - kFromLast + 1);
    memory.note_release(address);
    return static_cast<std::uint64_t>(operation) | extra << format::kSizeShift | address << format::kAddressShift;
  }

  bool take_words(std::uint64_t* to, std::size_t count) {
    VarintReader ticks{at[column(Column::ticks)], end[column(Column::ticks)]};
    VarintReader others{at[column(Column::others)], end[column(Column::others)]};
    Alike alike;
    std::uint64_t tick = 0;
    for (std::size_t i = 0; i < count;) {
      const unsigned head = byte(Column::operations);
      const auto operation = static_cast<Operation>(head & 7);
      if (operation != Operation::escape) [[likely]] {
        const unsigned mode = head >> kModeShift & 15, extra = head >> kExtraShift;
        const bool releases = is_release(operation);
        if (mode >= kModes || mode == (releases ? kReused : kRecent)) return false;
        to[i++] = (releases ? release(operation, mode, extra) : allocation(operation, mode, extra)) & ~format::kLapBit;
      } else if (format::is_stamp(head)) {
        tick += unzigzag(ticks.next());
        to[i++] = (tick << format::kTickShift | head) & ~format::kLapBit;
      } else if (names_stack(head)) {
        const unsigned how = byte(Column::stacks);
        std::uint32_t stack;
        if (how == StackMemory::kPredicted) {
          stack = stacks.predicted();
        } else if (how == StackMemory::kNew) {
          stack = stacks.last_new += static_cast<std::uint32_t>(unzigzag(others.next()));
          stacks.places[StackMemory::place_of(stack)] = stack;
        } else {
          stack = stacks.places[how];
        }
        stacks.note(stack);
        to[i++] = format::encode_first(static_cast<Kind>(head >> format::kKindShift), 1, stack);
      } else if (head == 0) {
        to[i++] = others.next() & ~format::kLapBit;
      } else {
        const std::uint32_t kind = head >> format::kKindShift & 31;
        auto next_alike = [&](std::uint32_t place) { return alike.of(kind, place) += unzigzag(others.next()); };
        const std::uint64_t first = (next_alike(0) << 8 | head) & ~format::kLapBit;
        to[i++] = first;
        const std::uint32_t length = format::record_words(first);
        if (!length) return false;
        for (std::uint32_t place = 1; place < length && i < count; place++) to[i++] = next_alike(place) & ~format::kLapBit;
      }
    }
    // What is left over, or was wanting, was not written by the other end.
    at[column(Column::ticks)] = ticks.at;
    at[column(Column::others)] = others.at;
    return ticks.good && others.good;
  }

  bool take_sightings(std::uint32_t count, std::uint64_t stream_at, std::vector<Sighting>* to) {
    VarintReader numbers{at[column(Column::sightings)], end[column(Column::sightings)]};
    Sighting each{stream_at, 0, 0};
    for (std::uint32_t i = 0; i < count && numbers.good; i++) {
      each.at += unzigzag(numbers.next());
      each.seen = each.empty + unzigzag(numbers.next());
      each.empty = each.seen + unzigzag(numbers.next());
      if (to) to->push_back(each);
    }
    at[column(Column::sightings)] = numbers.at;
    return numbers.good;
  }

  bool everything_taken() const {
    for (std::uint32_t c = 0; c < kColumns; c++)
      if (at[c] != end[c]) return false;
    return true;
  }
};

WordUnpacker::WordUnpacker() : state_(std::make_unique<State>()) {}
WordUnpacker::~WordUnpacker() = default;
std::uint64_t WordUnpacker::holes() const { return state_->holes; }

bool WordUnpacker::unpack(std::string_view payload, std::uint64_t stream_at, std::vector<std::uint64_t>& to,
                          std::vector<Sighting>* sightings) {
  State& s = *state_;
  to.clear();
  if (sightings) sightings->clear();
  PackedHeader header;
  const std::size_t header_bytes = read_packed_header(payload, header);
  if (!header_bytes || !s.fill(header, header_bytes, payload)) return false;
  s.memory.clear();
  s.stacks.clear();
  s.holes = header.holes;
  to.resize(header.words);
  if (s.take_words(to.data(), to.size()) && s.take_sightings(header.sightings, stream_at, sightings) && s.everything_taken())
    return true;
  to.clear();
  if (sightings) sightings->clear();
  return false;
}

}  // namespace heapspy::trace
