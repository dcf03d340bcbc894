#include "analyzer/report/printable.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace heapspy::report {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: not UTF-8 here
};

// The Unicode Standard, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first >= 0xC2 && first <= 0xDF && tail(1)) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first >= 0xE0 && first <= 0xEF && tail(1) && tail(2)) {
    const std::uint32_t code = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (code >= 0x800 && (code < 0xD800 || code > 0xDFFF)) return {code, 3};
  }
  if (first >= 0xF0 && first <= 0xF4 && tail(1) && tail(2) && tail(3)) {
    const std::uint32_t code = (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    if (code >= 0x10000 && code <= 0x10FFFF) return {code, 4};
  }
  return {};
}

bool control(std::uint32_t code) { return code < 0x20 || code == 0x7F || (code >= 0x80 && code < 0xA0); }

// Zero-width and direction marks, line and paragraph separators, byte order mark, tags: they change how the rest of a
// line looks without being seen.
bool invisible(std::uint32_t code) {
  return code == 0xAD || code == 0x61C || code == 0x180E || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF ||
         (code >= 0xFFF9 && code <= 0xFFFB) || (code >= 0xE0000 && code <= 0xE0FFF);
}

// East Asian Width W and F, by block.
bool wide(std::uint32_t code) {
  return (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0x303E) || (code >= 0x3041 && code <= 0xA4CF) ||
         (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xF900 && code <= 0xFAFF) || (code >= 0xFE30 && code <= 0xFE6F) ||
         (code >= 0xFF00 && code <= 0xFF60) || (code >= 0xFFE0 && code <= 0xFFE6) || (code >= 0x1F300 && code <= 0x1FAFF) ||
         (code >= 0x20000 && code <= 0x3FFFD);
}

// The bytes of `text` that fill at most `width` columns.
std::size_t bytes_within(std::string_view text, std::size_t width) {
  std::size_t at = 0, used = 0;
  while (at < text.size()) {
    const Character c = character_at(text, at);
    const std::size_t needs = c.bytes && wide(c.code) ? 2 : 1;
    if (used + needs > width) break;
    used += needs;
    at += c.bytes ? c.bytes : 1;
  }
  return at;
}

}  // namespace

std::string printable(std::string_view raw) {
  std::string text;
  text.reserve(raw.size());
  for (std::size_t at = 0; at < raw.size();) {
    const Character c = character_at(raw, at);
    if (c.bytes == 0) {
      fmt::format_to(std::back_inserter(text), "\\x{:02x}", static_cast<unsigned char>(raw[at++]));
      continue;
    }
    if (c.code == '\n')
      text += "\\n";
    else if (c.code == '\t')
      text += "\\t";
    else if (control(c.code) && c.bytes == 1)
      fmt::format_to(std::back_inserter(text), "\\x{:02x}", c.code);
    else if (control(c.code) || invisible(c.code))
      fmt::format_to(std::back_inserter(text), "\\u{:04x}", c.code);
    else
      text += raw.substr(at, c.bytes);
    at += c.bytes;
  }
  return text;
}

std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    count += c.bytes && wide(c.code) ? 2 : 1;
    at += c.bytes ? c.bytes : 1;
  }
  return count;
}

std::string fit(std::string_view text, std::size_t width) {
  if (bytes_within(text, width) == text.size()) return std::string(text);
  if (width == 0) return "";
  return std::string(text.substr(0, bytes_within(text, width - 1))) + "…";
}

std::string left(std::string_view text, std::size_t width) {
  std::string result = fit(text, width);
  result.append(width - columns(result), ' ');
  return result;
}

std::string right(std::string_view text, std::size_t width) {
  const std::string fitted = fit(text, width);
  return std::string(width - columns(fitted), ' ') + fitted;
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    std::string_view word = text.substr(0, space);
    text = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
    std::size_t needs = columns(word);
    if (used > 0 && used + 1 + needs > width) {
      lines.emplace_back();
      used = 0;
    }
    if (used > 0) {
      lines.back() += ' ';
      used++;
    }
    while (needs > width) {
      const std::size_t piece = bytes_within(word, width);
      if (piece == 0) break;
      lines.back() += word.substr(0, piece);
      word = word.substr(piece);
      lines.emplace_back();
      needs = columns(word);
    }
    lines.back() += word;
    used += needs;
  }
  return lines;
}

std::string command_text(const std::vector<std::string>& command) {
  static constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
  std::string text;
  for (const std::string& argument : command) {
    if (!text.empty()) text += ' ';
    if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) {
      text += argument;
      continue;
    }
    text += '\'';
    for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return printable(text);
}

}  // namespace heapspy::report
