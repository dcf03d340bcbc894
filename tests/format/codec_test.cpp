// The words of a stream: what encode.h writes, decode.h reads.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heapspy/format/decode.h"
#include "heapspy/format/encode.h"
#include "heapspy/format/layout.h"

namespace heapspy::format {
namespace {

constexpr Operation kShortOperations[] = {Operation::free,         Operation::malloc,        Operation::calloc,
                                          Operation::operator_new, Operation::realloc_begin, Operation::realloc_end,
                                          Operation::realloc_new};

TEST(Codec, ReturnsEveryShortOperationAtTheEdgesOfWhatFits) {
  const std::uint64_t addresses[] = {16, 0x61A2A3A4A5B0, 0x7FFFFFFFFFF0};
  const std::uint64_t sizes[] = {0, 1, 0xA1A2, kShortSizeLimit - 1};
  for (const Operation operation : kShortOperations)
    for (const std::uint64_t address : addresses)
      for (const std::uint64_t size : sizes) {
        ASSERT_TRUE(fits_short(address, size));
        const std::uint64_t word = encode_short(operation, address, size);
        ASSERT_EQ(word & kLapBit, 0u);
        for (const std::uint64_t lap : {std::uint64_t{0}, kLapBit}) {
          const std::uint64_t stored = word | lap;
          const Record record = decode(&stored, 1);
          EXPECT_EQ(record.words, 1u);
          EXPECT_EQ(record.operation, operation);
          EXPECT_EQ(record.address, address);
          EXPECT_EQ(record.size, size);
        }
      }
}

TEST(Codec, SaysWhatDoesNotFitAShortRecord) {
  EXPECT_FALSE(fits_short(8, 1)) << "an address between two multiples of 16";
  EXPECT_FALSE(fits_short(kShortAddressLimit, 1));
  EXPECT_FALSE(fits_short(16, kShortSizeLimit));
  EXPECT_TRUE(fits_short(kShortAddressLimit - 16, kShortSizeLimit - 1));
}

TEST(Codec, ReturnsStampsOfBothKindsUpToTheLongestTick) {
  const std::uint64_t longest = (1ull << 55) - 1;
  for (const Kind kind : {Kind::stamp, Kind::stamp_off_cpu})
    for (const std::uint64_t tick : {std::uint64_t{0}, std::uint64_t{0xA1A2A3A4A5A6}, longest}) {
      const std::uint64_t word = encode_stamp(kind, tick) | kLapBit;
      EXPECT_TRUE(is_stamp(word));
      const Record record = decode(&word, 1);
      EXPECT_EQ(record.operation, Operation::escape);
      EXPECT_EQ(record.kind, kind);
      EXPECT_EQ(record.payload, tick);
      EXPECT_EQ(record.words, 1u);
    }
}

TEST(Codec, ReturnsLongAllocations) {
  const std::uint64_t words[] = {encode_first(Kind::allocation, 3, encode_allocation_payload(Origin::aligned, 12)),
                                 0xA1A2A3A4A5A6A7A8 & ~kLapBit, encode_number(1ull << 40)};
  const Record record = decode(words, 3);
  EXPECT_EQ(record.words, 3u);
  EXPECT_EQ(record.kind, Kind::allocation);
  EXPECT_EQ(record.payload & 0xFF, static_cast<std::uint64_t>(Origin::aligned));
  EXPECT_EQ(record.payload >> 8, 12u);
  EXPECT_EQ(record.address, 0x21A2A3A4A5A6A7A8u);
  EXPECT_EQ(record.size, 1ull << 40);
  EXPECT_EQ(decode(words, 2).words, 0u) << "cut";
}

TEST(Codec, CutsNumbersThatDoNotFitSixtyThreeBits) {
  EXPECT_EQ(encode_number(kLapBit - 1), kLapBit - 1);
  EXPECT_EQ(encode_number(kLapBit), kLapBit - 1);
  EXPECT_EQ(encode_number(~0ull), kLapBit - 1);
}

TEST(Codec, ReadsEachLongKindWithItsOwnFields) {
  struct Case {
    Kind kind;
    std::uint32_t words;
    std::uint64_t address, size;
  };
  const Case cases[] = {
      {Kind::release, 2, 0xB1B2B3B4, 0}, {Kind::realloc_begin, 2, 0xB1B2B3B4, 0},  {Kind::realloc_end, 3, 0xB1B2B3B4, 0xC1C2},
      {Kind::failed, 2, 0, 0xB1B2B3B4},  {Kind::realloc_failed, 2, 0, 0xB1B2B3B4}, {Kind::realloc_freed, 1, 0, 0},
      {Kind::thread_end, 1, 0, 0}};
  for (const Case& one : cases) {
    const std::uint64_t words[] = {encode_first(one.kind, one.words, 0xA1A2A3), 0xB1B2B3B4 | kLapBit, 0xC1C2 | kLapBit};
    const Record record = decode(words, 3);
    EXPECT_EQ(record.kind, one.kind);
    EXPECT_EQ(record.words, one.words);
    EXPECT_EQ(record.payload, 0xA1A2A3u);
    EXPECT_EQ(record.address, one.address);
    EXPECT_EQ(record.size, one.size);
    if (one.words > 1) {
      EXPECT_EQ(decode(words, one.words - 1).words, 0u);
    }
  }
}

TEST(Codec, CarriesTextOfEveryLengthUpToTheLongestRecord) {
  for (std::size_t length = 0; length <= (kMaxRecordWords - 2) * kTextBytesPerWord; length++) {
    std::string text;
    for (std::size_t i = 0; i < length; i++) text += static_cast<char>('a' + i % 26);
    std::vector<std::uint64_t> words(kMaxRecordWords);
    const std::uint32_t used = encode_text(text.c_str(), words.data() + 2, kMaxRecordWords - 2);
    words[0] = encode_first(Kind::thread_start, 2 + used, 0xA1A2);
    words[1] = 0x7FFF12345678;
    for (std::uint64_t& word : words) word |= kLapBit;
    const Record record = decode(words.data(), words.size());
    ASSERT_EQ(record.words, 2 + used);
    EXPECT_EQ(record.payload, 0xA1A2u);
    EXPECT_EQ(record.address, 0x7FFF12345678u);
    char back[512];
    ASSERT_EQ(decode_text(record, back, sizeof back), length);
    EXPECT_EQ(std::string(back), text);
  }
}

TEST(Codec, CutsTextThatIsTooLongAndKeepsBytesAboveAscii) {
  const std::string text = std::string(1000, '\xC3');
  std::uint64_t words[kMaxRecordWords] = {};
  const std::uint32_t used = encode_text(text.c_str(), words + 1, kMaxRecordWords - 1);
  EXPECT_EQ(used, kMaxRecordWords - 1);
  words[0] = encode_first(Kind::mark, 1 + used, 0);
  char back[512];
  const std::size_t length = decode_text(decode(words, kMaxRecordWords), back, sizeof back);
  EXPECT_EQ(std::string(back, length), text.substr(0, (kMaxRecordWords - 1) * kTextBytesPerWord));
  char small[8];
  EXPECT_EQ(decode_text(decode(words, kMaxRecordWords), small, sizeof small), 7u);
}

TEST(Codec, FindsNoRecordInAWordThatWasNeverWritten) {
  const std::uint64_t words[] = {0, kLapBit};
  EXPECT_EQ(record_words(words[0]), 0u);
  EXPECT_EQ(decode(&words[0], 1).words, 0u);
  EXPECT_EQ(decode(&words[1], 1).words, 0u);
}

TEST(Codec, CanSkipAKindItDoesNotKnow) {
  const std::uint64_t words[8] = {encode_first(static_cast<Kind>(29), 5, 1)};
  EXPECT_EQ(record_words(words[0]), 5u);
  EXPECT_EQ(decode(words, 8).words, 5u);
  EXPECT_EQ(decode(words, 4).words, 0u);
}

TEST(Checksum, ChangesWithEverySingleBit) {
  for (const std::size_t bytes : {8u, 24u, 32u, 56u, 72u, 256u}) {
    std::string data(bytes, '\0');
    for (std::size_t i = 0; i < bytes; i++) data[i] = static_cast<char>(i * 37 + 11);
    const std::uint64_t right = checksum(data.data(), bytes);
    for (std::size_t bit = 0; bit < bytes * 8; bit++) {
      data[bit / 8] = static_cast<char>(data[bit / 8] ^ (1 << bit % 8));
      EXPECT_NE(checksum(data.data(), bytes), right) << bytes << " bytes, bit " << bit;
      data[bit / 8] = static_cast<char>(data[bit / 8] ^ (1 << bit % 8));
    }
    EXPECT_EQ(checksum(data.data(), bytes), right);
  }
  EXPECT_NE(checksum("", 0), 0u) << "0 means that there is none";
}

TEST(Layout, HasTheSizesThatAreWrittenInTraces) {
  EXPECT_EQ(sizeof(FileHeader), 384u);
  EXPECT_EQ(offsetof(FileHeader, version), 8u);
  EXPECT_EQ(offsetof(FileHeader, origin), 48u);
  EXPECT_EQ(offsetof(FileHeader, append_at), 112u);
  EXPECT_EQ(offsetof(FileHeader, control), 256u);
  EXPECT_EQ(sizeof(ChunkHeader), 64u);
  EXPECT_EQ(offsetof(ChunkHeader, header_checksum), 56u);
  EXPECT_EQ(sizeof(StagingHeader), 64u);
  EXPECT_EQ(sizeof(SlotHeader), 64u);
  EXPECT_EQ(sizeof(TaggedItem), 16u);
  EXPECT_EQ(sizeof(SnapshotInfo), 48u);
  EXPECT_EQ(sizeof(MappingRecord), 80u);
  EXPECT_EQ(sizeof(ResidencyRecord), 24u);
  EXPECT_EQ(sizeof(HeapRecord), 48u);
  EXPECT_EQ(sizeof(ThreadRecord), 24u);
}

}  // namespace
}  // namespace heapspy::format
