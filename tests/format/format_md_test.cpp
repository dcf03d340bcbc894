// preload/FORMAT.md is what other programs are written from: its figures are read out of it and held against the headers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "heapspy/format/decode.h"
#include "heapspy/format/layout.h"

namespace heapspy::format {
namespace {

std::vector<std::string> lines_of_document() {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  std::ifstream file(root / "preload" / "FORMAT.md");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// "| a | b |" as {"a", "b"}.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> found;
  std::istringstream stream(line);
  std::string cell;
  std::getline(stream, cell, '|');
  while (std::getline(stream, cell, '|')) {
    const std::size_t first = cell.find_first_not_of(' ');
    found.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
  }
  return found;
}

// Where a table says its fields are: each "first, second" of a row's field cell with the offset that its sizes give.
std::map<std::string, std::size_t> offsets_in_table(const std::string& title) {
  std::map<std::string, std::size_t> offsets;
  bool inside = false;
  const std::regex number("\\d+"), name("[a-z_]+");
  for (const std::string& line : lines_of_document()) {
    if (line.find(title) != std::string::npos) inside = true;
    if (!inside) continue;
    const std::vector<std::string> row = cells(line);
    if (row.size() < 3 || row[0].empty() || row[0].find_first_not_of("0123456789") != std::string::npos) {
      if (!offsets.empty()) break;
      continue;
    }
    std::vector<std::size_t> sizes;
    for (std::sregex_iterator i(row[1].begin(), row[1].end(), number), end; i != end; ++i)
      sizes.push_back(std::stoul(i->str()));
    std::size_t at = std::stoul(row[0]), field = 0;
    for (std::sregex_iterator i(row[2].begin(), row[2].end(), name), end; i != end; ++i, field++) {
      offsets[i->str()] = at;
      at += field < sizes.size() ? sizes[field] : 0;
    }
  }
  return offsets;
}

TEST(FormatDocument, PlacesEveryFieldOfTheFileHeader) {
  const std::map<std::string, std::size_t> expected = {
      {"magic", offsetof(FileHeader, magic)},
      {"version", offsetof(FileHeader, version)},
      {"header_bytes", offsetof(FileHeader, header_bytes)},
      {"mode", offsetof(FileHeader, mode)},
      {"clock", offsetof(FileHeader, clock)},
      {"tick_kind", offsetof(FileHeader, tick_kind)},
      {"machine_page_bytes", offsetof(FileHeader, machine_page_bytes)},
      {"pid", offsetof(FileHeader, pid)},
      {"ppid", offsetof(FileHeader, ppid)},
      {"forked", offsetof(FileHeader, forked)},
      {"end", offsetof(FileHeader, end)},
      {"origin", offsetof(FileHeader, origin)},
      {"start_realtime_ns", offsetof(FileHeader, start_realtime_ns)},
      {"start_jiffies", offsetof(FileHeader, start_jiffies)},
      {"end_tick", offsetof(FileHeader, end_tick)},
      {"pairs", offsetof(FileHeader, pairs)},
      {"append_at", offsetof(FileHeader, append_at)},
      {"stop", offsetof(FileHeader, stop)},
      {"stop_errno", offsetof(FileHeader, stop_errno)},
      {"failed_appends", offsetof(FileHeader, failed_appends)},
      {"max_bytes", offsetof(FileHeader, max_bytes)},
      {"threads", offsetof(FileHeader, threads)},
      {"events_per_stamp", offsetof(FileHeader, events_per_stamp)},
      {"parent_start_realtime_ns", offsetof(FileHeader, parent_start_realtime_ns)},
      {"unregistered_lost", offsetof(FileHeader, unregistered_lost)},
      {"sample_bytes", offsetof(FileHeader, sample_bytes)},
      {"ring_bytes", offsetof(FileHeader, ring_bytes)},
      {"collector", offsetof(FileHeader, collector)},
      {"collector_beat", offsetof(FileHeader, collector_beat)},
      {"frozen_by", offsetof(FileHeader, frozen_by)},
      {"copies", offsetof(FileHeader, copies)},
      {"sampling_lost", offsetof(FileHeader, sampling_lost)},
      {"stacks", offsetof(FileHeader, stacks)},
      {"stack_depth", offsetof(FileHeader, stack_depth)},
      {"stack_cells", offsetof(FileHeader, stack_cells)},
      {"stacks_lost", offsetof(FileHeader, stacks_lost)},
      {"recorder_ticks", offsetof(FileHeader, recorder_ticks)},
      {"control", offsetof(FileHeader, control)},
  };
  EXPECT_EQ(offsets_in_table("| FileHeader at |"), expected);
}

TEST(FormatDocument, PlacesEveryFieldOfTheChunkHeader) {
  const std::map<std::string, std::size_t> expected = {
      {"magic", offsetof(ChunkHeader, magic)},
      {"kind", offsetof(ChunkHeader, kind)},
      {"version", offsetof(ChunkHeader, version)},
      {"payload_bytes", offsetof(ChunkHeader, payload_bytes)},
      {"thread", offsetof(ChunkHeader, thread)},
      {"tid", offsetof(ChunkHeader, tid)},
      {"stream_at", offsetof(ChunkHeader, stream_at)},
      {"first_tick", offsetof(ChunkHeader, first_tick)},
      {"payload_checksum", offsetof(ChunkHeader, payload_checksum)},
      {"records", offsetof(ChunkHeader, records)},
      {"header_checksum", offsetof(ChunkHeader, header_checksum)},
  };
  EXPECT_EQ(offsets_in_table("| at | bytes | field |"), expected);
}

TEST(FormatDocument, PlacesEveryFieldOfThePackedHeader) {
  const std::map<std::string, std::size_t> expected = {
      {"words", offsetof(PackedHeader, words)},
      {"sightings", offsetof(PackedHeader, sightings)},
      {"column_bytes", offsetof(PackedHeader, column_bytes)},
      {"holes", offsetof(PackedHeader, holes)},
      {"checksum", offsetof(PackedHeader, checksum)},
  };
  EXPECT_EQ(offsets_in_table("| PackedHeader at |"), expected);
}

TEST(FormatDocument, GivesARightChecksum) {
  const std::regex example("Of the 8 bytes `([0-9a-fA-F ]+)` it is `0x([0-9A-F]{16})`");
  std::smatch match;
  for (const std::string& line : lines_of_document()) {
    if (!std::regex_search(line, match, example)) continue;
    std::istringstream bytes(match[1].str());
    std::string data, byte;
    while (bytes >> byte) data += static_cast<char>(std::stoi(byte, nullptr, 16));
    ASSERT_EQ(data.size(), 8u);
    EXPECT_EQ(fmt::format("{:016X}", checksum(data.data(), data.size())), match[2].str());
    return;
  }
  FAIL() << "no example of a checksum";
}

// What a record is, in the words of the document.
std::string in_words(const Record& record, bool lap) {
  const char* lap_words = lap ? "(lap bit 1)" : "(lap bit 0)";
  switch (record.operation) {
    case Operation::malloc: return fmt::format("malloc of {} bytes at 0x{:X} {}", record.size, record.address, lap_words);
    case Operation::free: return fmt::format("free of 0x{:X} {}", record.address, lap_words);
    default: break;
  }
  if (record.kind == Kind::stamp) return fmt::format("stamp at tick 0x{:X}", record.payload);
  if (record.kind == Kind::allocation)
    return fmt::format("operator new (origin {}), alignment {}: {} bytes at 0x{:X}", record.payload & 0xFF,
                       1 << (record.payload >> 8), record.size, record.address);
  return "no example";
}

TEST(FormatDocument, GivesExamplesThatDecodeToWhatItSays) {
  int examples = 0;
  const std::regex word("`([0-9A-F]{16})`");
  for (const std::string& line : lines_of_document()) {
    const std::vector<std::string> row = cells(line);
    if (row.size() < 2 || !std::regex_search(row[0], word)) continue;
    std::vector<std::uint64_t> words;
    for (std::sregex_iterator i(row[0].begin(), row[0].end(), word), end; i != end; ++i)
      words.push_back(std::stoull((*i)[1].str(), nullptr, 16));
    const Record record = decode(words.data(), words.size());
    EXPECT_EQ(record.words, words.size());
    EXPECT_EQ(in_words(record, words[0] & kLapBit), row[1]);
    examples++;
  }
  EXPECT_EQ(examples, 4);
}

}  // namespace
}  // namespace heapspy::format
