#include "analyzer/report/status_text.h"

#include <charconv>
#include <system_error>

namespace heapspy::report {

std::optional<std::uint64_t> status_bytes(const std::string& status, std::string_view key) {
  const std::string wanted = std::string(key) + ":";
  std::size_t at = status.starts_with(wanted) ? 0 : status.find("\n" + wanted);
  if (at == std::string::npos) return std::nullopt;
  at = status.find_first_of("0123456789\n", at + wanted.size() + (at ? 1 : 0));
  if (at == std::string::npos) return std::nullopt;
  std::uint64_t kib = 0;
  const auto parsed = std::from_chars(status.data() + at, status.data() + status.size(), kib);
  if (parsed.ec != std::errc{} || kib > ~0ull / 1024) return std::nullopt;
  return kib * 1024;
}

}  // namespace heapspy::report
