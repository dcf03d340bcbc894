// Several curves in one picture of characters.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace heapspy::report {

struct PlotPoint {
  double time_s = 0;
  std::uint64_t bytes = 0;
};
struct PlotCurve {
  char mark = '*';
  std::vector<PlotPoint> points;  // by time
};

// Lines of at most `width` columns, the highest bytes first and the axis of time last. The first of the curves that meet in a
// place is seen; in each column a curve stands at its highest. Empty where there is nothing to draw.
std::vector<std::string> plot(const std::vector<PlotCurve>&, std::size_t width, std::size_t height);

}  // namespace heapspy::report
