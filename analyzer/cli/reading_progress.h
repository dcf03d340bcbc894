// Progress of reading a trace, on stderr: only on a terminal, and only when it takes long.
#pragma once
#include <functional>
#include <string>

namespace heapspy::cli {

// To be given to what reads `path`; called with the share done, 0 to 1. Empty where stderr is no terminal. The line is
// erased when the function object and its copies go.
std::function<void(double)> reading_progress(const std::string& path);

}  // namespace heapspy::cli
