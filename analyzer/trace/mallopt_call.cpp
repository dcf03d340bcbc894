#include "analyzer/trace/mallopt_call.h"

#include <charconv>

#include "heapspy/format/mallopt_name.h"

namespace heapspy::trace {

std::optional<MalloptCall> mallopt_call(std::string_view mark) {
  if (!mark.starts_with(format::kMalloptBegins) || !mark.ends_with(')')) return std::nullopt;
  mark.remove_prefix(std::string_view(format::kMalloptBegins).size());
  mark.remove_suffix(1);
  const std::size_t comma = mark.find(", ");
  if (comma == std::string_view::npos) return std::nullopt;
  for (const format::MalloptName& each : format::kMalloptNames) {
    if (mark.substr(0, comma) != each.name) continue;
    const std::string_view number = mark.substr(comma + 2);
    MalloptCall call{each.parameter, 0};
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), call.value);
    if (error == std::errc() && end == number.data() + number.size()) return call;
  }
  return std::nullopt;
}

}  // namespace heapspy::trace
