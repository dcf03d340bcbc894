#include "analyzer/heap/glibc_version.h"

#include <charconv>
#include <fstream>
#include <string_view>
#include <vector>

namespace heapspy::heap {
namespace {

constexpr std::size_t kMostRead = 64u << 20;
constexpr std::string_view kBanner = "release version 2.";

}  // namespace

std::optional<unsigned> glibc_minor_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string window;  // of two pieces, so that a banner across their border is seen
  std::vector<char> piece(1u << 20);
  for (std::size_t read = 0; file && read < kMostRead; read += piece.size()) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    window.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    const std::size_t found = window.find(kBanner);
    if (found != std::string::npos && found + kBanner.size() + 8 < window.size()) {
      unsigned minor = 0;
      const char* digits = window.data() + found + kBanner.size();
      if (std::from_chars(digits, digits + 4, minor).ec == std::errc{}) return minor;
      return std::nullopt;
    }
    if (window.size() > 64) window.erase(0, window.size() - 64);
  }
  return std::nullopt;
}

}  // namespace heapspy::heap
