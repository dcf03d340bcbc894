#include "analyzer/trace/packed_words.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <regex>
#include <string>

#include "heapspy/format/encode.h"

namespace heapspy::test {
namespace {

using format::Kind;
using format::Operation;
using trace::Sighting;
using trace::WordPacker;
using trace::WordUnpacker;
using Words = std::vector<std::uint64_t>;

Words through(const Words& words, std::uint64_t stream_at = 0) {
  WordPacker packer(1);
  WordUnpacker unpacker;
  Words back;
  EXPECT_TRUE(unpacker.unpack(packer.pack(words, stream_at), stream_at, back, nullptr));
  return back;
}

// What a program might do: allocations and releases of blocks that live for a while, stamps, long records.
Words plausible_words(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  Words words;
  std::vector<std::uint64_t> live;
  std::uint64_t tick = 1000;
  while (words.size() < count) {
    if (random() % 32 == 0) words.push_back(format::encode_stamp(random() % 2 ? Kind::stamp : Kind::stamp_off_cpu, tick += 77));
    if (random() % 3 == 0)
      words.push_back(format::encode_first(Kind::stack, 1, random() % 5 ? random() % 300 : random() % (1ull << 33)));
    if (random() % 100 == 0) {
      words.push_back(format::encode_first(Kind::allocation, 3, 6 | 6 << 8));
      words.push_back(0x7f0000000008 + random() % 4096 * 8);
      words.push_back(random() % (1 << 24));
    }
    if (live.size() < 50 || random() % 2) {
      live.push_back(0x550000001000 + random() % 5000 * 48 / 16 * 16);
      words.push_back(format::encode_short(static_cast<Operation>(2 + random() % 3), live.back(), random() % 3000));
    } else {
      const std::size_t which = random() % live.size();
      words.push_back(format::encode_short(Operation::free, live[which], random() % 2));
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  words.resize(count);
  return words;
}

TEST(PackedWords, ComeBackAsTheyWere) {
  EXPECT_EQ(through({}), Words{});
  for (unsigned seed = 0; seed < 20; seed++) {
    const Words words = plausible_words(seed * 97 + 1, seed);
    EXPECT_EQ(through(words, seed * 1000), words) << seed;
  }
  const Words most = plausible_words(format::kMostPackedWords, 1);
  EXPECT_EQ(through(most), most);
}

TEST(PackedWords, ComeBackAsTheyWereWhateverTheyAre) {
  std::mt19937_64 random(5);
  for (unsigned round = 0; round < 200; round++) {
    Words words(random() % 300);
    for (std::uint64_t& word : words) {
      word = random() & ~format::kLapBit;
      if (random() % 4 == 0) word >>= random() % 63;
      if (random() % 4 == 0) word &= ~7ull;
      if (random() % 4 == 0) word &= ~0xFFFFF8ull;
    }
    EXPECT_EQ(through(words), words) << round;
  }
  // One of each: every operation with the largest address and size, every kind.
  Words extremes;
  for (std::uint64_t operation = 0; operation < 8; operation++)
    for (const std::uint64_t rest : {0ull, 1ull, ~0ull}) extremes.push_back((rest << 3 | operation) & ~format::kLapBit);
  for (std::uint64_t kind = 0; kind < 32; kind++)
    for (const std::uint64_t words : {0ull, 1ull, 2ull, 255ull}) extremes.push_back(kind << 3 | words << 8 | 0xABCDEFull << 16);
  EXPECT_EQ(through(extremes), extremes);
}

TEST(PackedWords, NeedLittleSpaceWhereAThreadCacheHandsOutWhatItTookBack) {
  Words words;
  for (std::uint64_t i = 0; i < 5000; i++) {
    words.push_back(format::encode_short(Operation::malloc, 0x550000001000, 64));
    words.push_back(format::encode_short(Operation::free, 0x550000001000, 0));
  }
  EXPECT_LT(WordPacker(1).pack(words, 0).size(), 250u);
}

// preload/FORMAT.md has this example in these words.
TEST(PackedWords, AreTheColumnsOfTheFormatDocument) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  std::ifstream file(root / "preload" / "FORMAT.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  const std::size_t at = document.find("Example: malloc of 64 bytes");
  ASSERT_NE(at, std::string::npos);
  const std::string example = document.substr(at, document.find("the others are empty", at) - at);
  Words words;
  const std::regex word("`([0-9A-F]{16})`"), column("([0-9]+) `([0-9A-F ]+)`");
  for (std::sregex_iterator i(example.begin(), example.end(), word), end; i != end; ++i)
    words.push_back(std::stoull((*i)[1].str(), nullptr, 16));
  ASSERT_EQ(words.size(), 2u);
  std::map<std::size_t, std::string> expected, columns;
  for (std::sregex_iterator i(example.begin(), example.end(), column), end; i != end; ++i)
    expected[std::stoul((*i)[1].str())] = (*i)[2].str();

  WordPacker packer(1);
  const std::string payload(packer.pack(words, 0));
  format::PackedHeader header;
  ASSERT_EQ(trace::read_packed_header(payload, header), sizeof header);
  std::size_t from = sizeof header;
  for (std::size_t i = 0; i < format::kColumns; i++) {
    if (!header.column_bytes[i]) continue;
    ASSERT_TRUE(header.column_bytes[i] & format::kColumnAsItIs) << "so short";
    const std::size_t length = header.column_bytes[i] & ~format::kColumnAsItIs;
    std::string text;
    for (std::size_t k = 0; k < length; k++)
      text += fmt::format("{}{:02X}", k ? " " : "", static_cast<unsigned char>(payload[from + k]));
    columns[i] = text;
    from += length;
  }
  EXPECT_EQ(columns, expected);
}

// A loop that allocates at some places, now and then from elsewhere.
TEST(PackedWords, SayStacksInABitWhereTheyFollowEachOtherAsBefore) {
  std::mt19937_64 random(11);
  Words words, without;
  for (std::uint64_t i = 0; i < 20000; i++) {
    const std::uint64_t cell = random() % 50 ? 700 + i % 40 * 3 : random() % 100000;
    words.push_back(format::encode_first(Kind::stack, 1, cell));
    for (Words* to : {&words, &without}) to->push_back(format::encode_short(Operation::malloc, 0x550000001000 + i * 64, 40));
  }
  EXPECT_EQ(through(words), words);
  const std::size_t more = WordPacker(1).pack(words, 0).size() - WordPacker(1).pack(without, 0).size();
  EXPECT_LT(more, 20000u * 4 / 8) << "half a byte each";
}

TEST(PackedWords, AreReadFromTheTimeBeforeThereWereStacks) {
  Words words = plausible_words(3000, 4);
  std::erase_if(words, [](std::uint64_t word) { return (word & 0xFF) == format::encode_first(Kind::stack, 0, 0); });
  WordPacker packer(1);
  const std::string payload(packer.pack(words, 7, std::vector<Sighting>{{10, 5, 4}}, 1));
  format::PackedHeader header;
  ASSERT_EQ(trace::read_packed_header(payload, header), sizeof header);
  format::PackedHeaderWithoutStacks older{header.words, header.sightings, {}, header.holes, 0};
  std::copy_n(header.column_bytes, format::kColumnsWithoutStacks, older.column_bytes);
  older.checksum = format::checksum(&older, sizeof older - 8);
  const std::string old_payload =
      std::string(reinterpret_cast<const char*>(&older), sizeof older) + payload.substr(sizeof header);
  WordUnpacker unpacker;
  Words back;
  std::vector<Sighting> sightings;
  ASSERT_TRUE(unpacker.unpack(old_payload, 7, back, &sightings));
  EXPECT_EQ(back, words);
  EXPECT_EQ(sightings.size(), 1u);
  EXPECT_EQ(unpacker.holes(), 1u);
}

TEST(PackedWords, CarrySightings) {
  const Words words = plausible_words(100, 3);
  const std::vector<Sighting> sightings = {{5000, 100, 90}, {5007, 2000, 1990}, {5100, 2500, 900000}};
  WordPacker packer(1);
  WordUnpacker unpacker;
  Words back;
  std::vector<Sighting> seen;
  ASSERT_TRUE(unpacker.unpack(packer.pack(words, 5000, sightings, 2), 5000, back, &seen));
  EXPECT_EQ(back, words);
  ASSERT_EQ(seen.size(), 3u);
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(seen[i].at, sightings[i].at);
    EXPECT_EQ(seen[i].seen, sightings[i].seen);
    EXPECT_EQ(seen[i].empty, sightings[i].empty);
  }
  EXPECT_EQ(unpacker.holes(), 2u);
}

TEST(PackedWords, AreRefusedOrTakenWhateverByteIsFlipped) {
  const Words words = plausible_words(400, 9);
  WordPacker packer(1);
  const std::string payload(packer.pack(words, 0, std::vector<Sighting>{{10, 5, 4}}));
  WordUnpacker unpacker;
  Words back;
  std::vector<Sighting> sightings;
  for (std::size_t at = 0; at < payload.size(); at++)
    for (const int flip : {1, 0x80, 0xFF}) {
      std::string damaged = payload;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      const bool taken = unpacker.unpack(damaged, 0, back, &sightings);
      EXPECT_TRUE(taken ? back.size() == words.size() : back.empty()) << at;
    }
  for (std::size_t size = 0; size < payload.size(); size++)
    if (unpacker.unpack(payload.substr(0, size), 0, back, &sightings)) {
      EXPECT_EQ(back, words) << "only padding was cut";
    }
}

// A frame may say that it holds whatever it likes.
TEST(PackedWords, TakeNoMoreMemoryThanTheirNumberAllows) {
  Words words(10, format::encode_stamp(Kind::stamp, 1));
  std::string payload(WordPacker(1).pack(words, 0));
  format::PackedHeader header;
  for (const std::uint32_t claimed : {format::kMostPackedWords, format::kMostPackedWords + 1, ~0u}) {
    std::memcpy(&header, payload.data(), sizeof header);
    header.words = claimed;
    header.checksum = format::checksum(&header, sizeof header - 8);
    std::memcpy(payload.data(), &header, sizeof header);
    WordUnpacker unpacker;
    Words back;
    unpacker.unpack(payload, 0, back, nullptr);
    EXPECT_TRUE(back.empty() || back.size() == format::kMostPackedWords);
  }
}

}  // namespace
}  // namespace heapspy::test
