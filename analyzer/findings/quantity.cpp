#include "analyzer/findings/quantity.h"

#include <fmt/core.h>

#include <cmath>

namespace heapspy::findings {
namespace {

std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

const char* sign(std::int64_t value) { return value > 0 ? "+" : value < 0 ? "-" : ""; }

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  // 1023.95 would be printed as 1024.0 of the smaller unit.
  while (value >= 1023.95 && unit < 5) {
    value /= 1024;
    unit++;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string change_text(std::int64_t bytes) { return sign(bytes) + bytes_text(magnitude(bytes)); }

std::string count_text(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, " ");
  return text;
}

std::string count_change_text(std::int64_t count) { return sign(count) + count_text(magnitude(count)); }

std::string seconds_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const double size = std::fabs(seconds);
  if (size >= 99.95) return fmt::format("{:.0f} s", seconds);
  if (size >= 0.9995 || size == 0) return fmt::format("{:.1f} s", seconds);
  if (size >= 0.0009995) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (size >= 0.0000009995) return fmt::format("{:.1f} us", seconds * 1e6);
  return fmt::format("{:.0f} ns", seconds * 1e9);
}

std::string percent_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (part > 0 && percent < 0.5) return "<1 %";
  return fmt::format("{:.0f} %", percent);
}

std::string plural_text(std::uint64_t count, const char* one, const char* many) {
  return count_text(count) + " " + (count == 1 ? one : many);
}

}  // namespace heapspy::findings
