// Figures that are estimated, or charged in parts, are kept as real numbers and shown as whole ones.
#pragma once
#include <cmath>
#include <cstdint>

namespace heapspy::report {

// Never below 0.
inline std::uint64_t rounded(double value) { return value > 0 ? static_cast<std::uint64_t>(std::llround(value)) : 0; }

}  // namespace heapspy::report
