#include <gtest/gtest.h>
#include <zlib.h>

#include <map>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <vector>

#include "analyzer/exports/exports.h"
#include "tests/exports/shop.h"

namespace heapspy::test {
namespace {

using protozero::pbf_reader;

std::string gunzip(const std::string& packed) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string data(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(data.data());
  stream.avail_out = static_cast<uInt>(data.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  data.resize(stream.total_out);
  inflateEnd(&stream);
  return data;
}

// Fields of a message as numbers, or as the bytes of what is nested.
struct Message {
  std::multimap<unsigned, std::uint64_t> numbers;
  std::multimap<unsigned, std::string> bytes;

  explicit Message(const std::string& data) {
    for (pbf_reader reader(data); reader.next();) {
      const unsigned tag = reader.tag();
      if (reader.wire_type() == protozero::pbf_wire_type::varint)
        numbers.emplace(tag, reader.get_uint64());
      else
        bytes.emplace(tag, reader.get_view().to_string());
    }
  }
  std::vector<std::string> all(unsigned tag) const {
    std::vector<std::string> found;
    for (auto [at, end] = bytes.equal_range(tag); at != end; ++at) found.push_back(at->second);
    return found;
  }
  std::uint64_t number(unsigned tag) const {
    const auto at = numbers.find(tag);
    return at == numbers.end() ? 0 : at->second;
  }
};

std::vector<std::uint64_t> packed_numbers(const std::string& data, unsigned tag) {
  std::vector<std::uint64_t> numbers;
  for (pbf_reader at(data); at.next();)
    if (at.tag() == tag && at.wire_type() == protozero::pbf_wire_type::length_delimited) {
      const auto range = at.get_packed_uint64();
      numbers.assign(range.begin(), range.end());
    } else {
      at.skip();
    }
  return numbers;
}

TEST(Pprof, GivesEachSiteAsASampleWithItsInlinedFramesInOneLocation) {
  const Message profile(gunzip(exports::pprof(shop_report())));
  const std::vector<std::string> strings = profile.all(6);
  ASSERT_FALSE(strings.empty());
  EXPECT_EQ(strings[0], "");
  std::vector<std::string> types;
  for (const std::string& type : profile.all(1)) types.push_back(strings[Message(type).number(1)]);
  EXPECT_EQ(types, (std::vector<std::string>{"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}))
      << "pinned_space is not known for every site";
  const std::vector<std::string> samples = profile.all(2);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(packed_numbers(samples[0], 2), (std::vector<std::uint64_t>{10, 1000, 3, 300}));
  EXPECT_EQ(packed_numbers(samples[0], 1).size(), 3u) << "push and fill are one location";

  std::map<std::uint64_t, std::string> functions;
  for (const std::string& each : profile.all(5)) functions[Message(each).number(1)] = strings[Message(each).number(2)];
  std::map<std::uint64_t, std::vector<std::string>> locations;
  for (const std::string& each : profile.all(4))
    for (const std::string& line : Message(each).all(4))
      locations[Message(each).number(1)].push_back(functions[Message(line).number(1)]);
  EXPECT_EQ(locations[packed_numbers(samples[0], 1)[0]], (std::vector<std::string>{"push", "fill"}));
  EXPECT_EQ(locations[packed_numbers(samples[0], 1)[1]], (std::vector<std::string>{"[libz.so.1+0x4f20]"}));
}

TEST(Pprof, NamesTheProgramAsItsFirstMappingWithItsBuildId) {
  const Message profile(gunzip(exports::pprof(shop_report())));
  const std::vector<std::string> strings = profile.all(6), mappings = profile.all(3);
  ASSERT_EQ(mappings.size(), 2u);
  EXPECT_EQ(strings[Message(mappings[0]).number(5)], "/srv/shop");
  EXPECT_EQ(strings[Message(mappings[0]).number(6)], "abcd");
}

TEST(Perfetto, HoldsCountersAndTheHeapProfileOfTheEnd) {
  const Message trace(exports::perfetto(shop_report()));
  std::vector<std::int64_t> counters;
  std::vector<std::string> profiles;
  for (const std::string& packet : trace.all(1)) {
    const Message fields(packet);
    EXPECT_EQ(fields.number(10), 1u);
    for (const std::string& event : fields.all(11)) counters.push_back(static_cast<std::int64_t>(Message(event).number(30)));
    for (const std::string& profile : fields.all(37)) profiles.push_back(profile);
  }
  EXPECT_EQ(counters, (std::vector<std::int64_t>{350, 4096}));
  ASSERT_EQ(profiles.size(), 1u);
  const Message profile(profiles[0]);
  EXPECT_EQ(profile.all(2).size(), 6u) << "frames";
  EXPECT_EQ(profile.all(3).size(), 2u) << "call stacks";
  const std::vector<std::string> samples = Message(profile.all(5).at(0)).all(2);
  ASSERT_EQ(samples.size(), 2u);
  const Message fill(samples[0]);
  EXPECT_EQ(fill.number(2), 1000u);
  EXPECT_EQ(fill.number(3), 800u) << "freed: 200 are left at the end";
  EXPECT_EQ(fill.number(5), 10u);
  EXPECT_EQ(fill.number(6), 8u);
}

}  // namespace
}  // namespace heapspy::test
