// Bars and sparklines of block characters; for terminals only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heapspy::report {

// `share` (0 to 1) of `width` columns, to the eighth of a column; what is above 0 shows at least an eighth.
std::string bar(double share, std::size_t width);
// One column per value, eight heights up to the largest value. 0 and unknown are a space; what is above 0 shows.
std::string sparkline(const std::vector<std::optional<std::uint64_t>>& values);

}  // namespace heapspy::report
