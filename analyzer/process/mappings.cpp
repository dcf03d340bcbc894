#include "analyzer/process/mappings.h"

#include <charconv>

namespace heapspy::process {
namespace {

// Takes a number off the front of `text`.
template <typename Number>
bool take_number(std::string_view& text, Number& value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

void skip_spaces(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

// "55dad5bbc000-55dad5bbe000 r--p 00000000 fe:00 247134                     /usr/bin/cat"
bool parse_mapping_line(std::string_view line, Mapping& mapping) {
  if (!take_number(line, mapping.start, 16) || !take(line, '-') || !take_number(line, mapping.end, 16)) return false;
  if (mapping.end <= mapping.start || !take(line, ' ') || line.size() < 5) return false;
  mapping.read = line[0] == 'r';
  mapping.write = line[1] == 'w';
  mapping.execute = line[2] == 'x';
  mapping.shared = line[3] == 's';
  line.remove_prefix(4);
  if (!take(line, ' ') || !take_number(line, mapping.file_offset, 16) || !take(line, ' ')) return false;
  if (!take_number(line, mapping.device_major, 16) || !take(line, ':') || !take_number(line, mapping.device_minor, 16))
    return false;
  if (!take(line, ' ') || !take_number(line, mapping.inode, 10)) return false;
  skip_spaces(line);
  mapping.name = line;
  return true;
}

struct Field {
  std::string_view key;
  std::uint64_t Mapping::*member;
};
constexpr Field kFields[] = {
    {"Rss", &Mapping::rss_bytes},
    {"Anonymous", &Mapping::anonymous_bytes},
    {"Swap", &Mapping::swap_bytes},
    {"AnonHugePages", &Mapping::anon_huge_bytes},
    {"Private_Dirty", &Mapping::private_dirty_bytes},
};

// "Rss:                   8 kB", and "VmFlags: rd ex mr" whose value is no number.
bool parse_detail_line(std::string_view line, Mapping* mapping) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 || mapping == nullptr) return false;
  const std::string_view key = line.substr(0, colon);
  for (const Field& field : kFields) {
    if (key != field.key) continue;
    std::string_view value = line.substr(colon + 1);
    skip_spaces(value);
    std::uint64_t kib = 0;
    if (!take_number(value, kib, 10) || kib > UINT64_MAX / 1024) return false;
    mapping->*field.member = kib * 1024;
  }
  return true;
}

}  // namespace

MappingList parse_mappings(std::string_view text) {
  MappingList list;
  bool below_mapping = false;  // detail lines below a damaged mapping line belong to no mapping we know
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    // Keys begin with a capital letter, addresses are lower-case hexadecimal.
    const bool detail = !line.empty() && line.front() >= 'A' && line.front() <= 'Z';
    if (detail) {
      if (!parse_detail_line(line, below_mapping ? &list.mappings.back() : nullptr)) list.damaged_lines++;
      continue;
    }
    Mapping mapping;
    below_mapping = parse_mapping_line(line, mapping);
    if (below_mapping)
      list.mappings.push_back(std::move(mapping));
    else
      list.damaged_lines++;
  }
  return list;
}

}  // namespace heapspy::process
