// A short record becomes one byte in `operations` and what its mode says:
//
//   bits 0 to 2  operation, as in the word          bit 7  allocations: bit 16 of the size; releases: bit 0 of the size field
//   bits 3 to 6  how the address is said (in units of 16, A):
//     0        as the short record before it
//     1        allocations: the block of its size class that was released last
//     2        releases: the n-th latest allocation; a byte in `recent` (n − 1)
//     3 to 8   by its difference from the short record before, zigzag, in 1 to 6 bytes
//     9 to 14  by its difference from the latest allocation of its size class, or from the latest release
//
// Any other record's byte is the lowest of its first word; stamps have the difference from the stamp before in `ticks`, other
// records their first word's upper bits and their further words in `others`, as differences from the same word of the
// latest record of their kind; stacks have a byte in `stacks`: most of them follow the stack that they followed before. A byte
// of 0 stands for any word that fits nowhere else: in `others` as it is.
//
// Both ends keep the same memory of what was allocated and released (Memory); it begins empty with each payload. Its tables are
// small and forget: a forgotten block is said by its difference.
#include "analyzer/trace/packed_words.h"

// For one parameter; a zstd that does not know it goes without.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "heapspy/format/decode.h"
#include "heapspy/format/encode.h"

namespace heapspy::trace {

namespace {

using format::Column;
using format::kColumns;
using format::Kind;
using format::kMostPackedWords;
using format::Operation;
using format::PackedHeader;

constexpr unsigned kDifferenceBytes = 6;  // an address has 43 bits
constexpr unsigned kModeShift = 3, kExtraShift = 7;
enum : unsigned { kSame = 0, kReused = 1, kRecent = 2, kFromLast = 3, kFromAlike = kFromLast + kDifferenceBytes };
constexpr unsigned kModes = kFromAlike + kDifferenceBytes;
constexpr std::uint32_t kLongestVarint = 10;
constexpr std::size_t kShortColumn = 48;  // bytes that are not worth a frame
constexpr int kQuickLevel = 1;
constexpr std::uint64_t kLongestOthers = kLongestVarint;  // bytes a word, at most

constexpr bool is_release(Operation operation) { return operation == Operation::free || operation == Operation::realloc_begin; }

std::uint64_t zigzag(std::uint64_t difference) { return difference << 1 ^ (0 - (difference >> 63)); }
std::uint64_t unzigzag(std::uint64_t value) { return value >> 1 ^ (0 - (value & 1)); }

// What both ends remember of the short records so far.
struct Memory {
  static constexpr std::uint32_t kClasses = 256, kDepth = 8, kBlocks = 4096, kRecentBlocks = 256;

  std::uint64_t last = 0, released = 0;
  std::uint32_t allocations = 0;
  std::uint64_t allocated[kClasses];            // the latest of each class
  std::uint64_t free_blocks[kClasses][kDepth];  // stacks that wrap
  std::uint8_t free_top[kClasses];
  std::uint8_t class_of[kBlocks];       // by hash of address: the class of the block that was allocated there last
  std::uint64_t recent[kRecentBlocks];  // the latest allocations, by number

  void clear() { std::memset(static_cast<void*>(this), 0, sizeof *this); }

  // glibc's chunk sizes; any two sizes may share a class, which only costs bytes.
  static std::uint32_t size_class(std::uint64_t size) { return static_cast<std::uint32_t>((size + 23) >> 4) % kClasses; }
  static std::uint32_t hash(std::uint64_t address) { return static_cast<std::uint32_t>(address * 0x9E3779B97F4A7C15ull >> 52); }
  static_assert(kBlocks == 1 << 12);

  std::uint64_t& top(std::uint32_t c) { return free_blocks[c][free_top[c] % kDepth]; }
  void pop(std::uint32_t c) {
    top(c) = 0;
    free_top[c]--;
  }

  void note_allocation(std::uint64_t address, std::uint32_t c, unsigned mode) {
    std::uint8_t& known = class_of[hash(address)];
    if (mode == kReused)
      pop(c);
    else if (mode == kSame && top(known) == address)
      pop(known);
    known = static_cast<std::uint8_t>(c);
    allocated[c] = address;
    recent[allocations++ % kRecentBlocks] = address;
    last = address;
  }
  void note_release(std::uint64_t address) {
    const std::uint32_t c = class_of[hash(address)];
    free_top[c]++;
    top(c) = address;
    released = address;
    last = address;
  }
};

// What both ends remember of stacks: which followed which, and some of the latest.
struct StackMemory {
  static constexpr std::uint32_t kFollowed = 4096, kPlaces = 254;
  static constexpr unsigned kPredicted = 0, kNew = 255;  // else a place

  std::uint32_t last = 0, last_new = 0;
  std::uint32_t after[kFollowed];
  std::uint32_t places[1 + kPlaces];

  void clear() { std::memset(static_cast<void*>(this), 0, sizeof *this); }
  static std::uint64_t hash(std::uint32_t stack) { return stack * 0x9E3779B97F4A7C15ull >> 52; }
  static_assert(kFollowed == 1 << 12);
  static unsigned place_of(std::uint32_t stack) { return static_cast<unsigned>(1 + hash(stack) % kPlaces); }
  std::uint32_t& predicted() { return after[hash(last)]; }
  void note(std::uint32_t stack) {
    predicted() = stack;
    last = stack;
  }
};

// Whether a record of kind `stack` is as every recorder writes it.
bool is_plain_stack(std::uint64_t word) {
  return (word & 0xFFFF) == format::encode_first(Kind::stack, 1, 0) && word >> format::kPayloadShift <= ~std::uint32_t{0};
}
constexpr std::uint64_t kStackHead = static_cast<std::uint64_t>(Kind::stack) << format::kKindShift;

// Differences within `others`.
struct Alike {
  static constexpr std::uint32_t kPlaces = 4;
  std::uint64_t words[32][kPlaces] = {};
  std::uint64_t& of(std::uint32_t kind, std::uint32_t place) { return words[kind % 32][std::min(place, kPlaces - 1)]; }
};

char* put_varint(char* to, std::uint64_t value) {
  while (value >= 0x80) {
    *to++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<char>(value);
  return to;
}

// Reads within [at, end); `at` null after the end was met.
struct VarintReader {
  const unsigned char* at = nullptr;
  const unsigned char* end = nullptr;
  bool good = true;
  std::uint64_t next() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; at != end && shift < 64; shift += 7) {
      const unsigned char byte = *at++;
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    good = false;
    return 0;
  }
};

constexpr std::uint32_t column(Column c) { return static_cast<std::uint32_t>(c); }
// Else of numbers of variable length.
constexpr bool is_of_bytes(std::uint32_t c) { return c < column(Column::ticks) || c == column(Column::stacks); }
// How long a column of `words` words can be.
std::uint64_t longest(std::uint32_t c, std::uint64_t words, std::uint64_t sightings) {
  if (c == column(Column::sightings)) return 3 * kLongestVarint * sightings;
  if (c == column(Column::ticks)) return kLongestVarint * words;
  if (c == column(Column::others)) return kLongestOthers * words;
  return words;
}

}  // namespace

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

// ---- packing -----------------------------------------------------------------------------------------------------
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

  void put_stack(std::uint32_t stack) {
    put(Column::operations, kStackHead);
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
      } else if ((word & 0xFF) == kStackHead) {
        if (is_plain_stack(word)) {
          put_stack(static_cast<std::uint32_t>(word >> format::kPayloadShift));
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

// ---- unpacking ---------------------------------------------------------------------------------------------------
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
      } else if (head == kStackHead) {
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
        to[i++] = format::encode_first(Kind::stack, 1, stack);
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
